"""Which variables of a worker its commands see."""

import pytest

from tickwork.config import load_settings
from tickwork.core.access.secret_policy import command_environment, read_passed
from tickwork.errors import InvalidInput

WORKER = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TICKWORK_URL": "postgresql://ada:pass@db/jobs",
    "TICKWORK_SECRET_KEY": "ab" * 32,
    "DATABASE_URL": "postgresql://ada:pass@db/jobs",
    "PGPASSWORD": "pass",
    "STRIPE_KEY": "sk",
    "LD_PRELOAD": "/x.so",
    "BASH_ENV": "/x",
}


def test_commands_see_a_short_list_and_what_the_operator_names() -> None:
    usual = {"PATH", "HOME", "LC_ALL", "TZ"}
    assert command_environment(WORKER, ()).keys() == usual
    assert command_environment(WORKER, read_passed(" STRIPE_KEY,TICKWORK_URL, ")).keys() == {
        *usual,
        "STRIPE_KEY",
        "TICKWORK_URL",
    }


@pytest.mark.parametrize(
    "text", ["TICKWORK_SECRET_KEY", "A,TICKWORK_SECRET_KEY_FILE", "TICKWORK_TOKEN", "A B", "1X", "A=B"]
)
def test_the_key_of_the_vault_and_what_is_no_name_cannot_be_passed_on(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot"):
        load_settings({"command_env": text}, {})
