"""`tickwork apply` reads the output of `--yaml` as the same schedules."""

from tests.importers.cronjob_texts import FULL, cronjob, read
from tests.importers.crontab_texts import ANACRON, CERTBOT, DEBIAN, E2SCRUB, FEDORA, LARAVEL, MDADM, PHP
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.declare.export import specs_as_yaml
from tickwork.declare.read_declarations import read_declared
from tickwork.importers.crontab import read_crontab

ODD = r"""
HOME="/srv/a: b"
YES=on
NUMBER=007
RANDOM_DELAY=45
# yes: this is # odd
0~30 ~ * * * printf '\%s' "- 'a': \"b\" # c" %one%%three
@weekly true
"""


def applied(specs: list[ScheduleSpec]) -> list[ScheduleSpec]:
    return read_declared(specs_as_yaml(specs), lambda task: None, file="f.yaml").specs


def test_crontabs_come_back_from_yaml() -> None:
    for system, text in ((True, DEBIAN + E2SCRUB + PHP + ANACRON + CERTBOT + MDADM + FEDORA), (False, LARAVEL + ODD)):
        imported = read_crontab(text.encode(), file="f", system=system, tz="Europe/Berlin")
        assert imported.errors == []
        assert len(imported.specs) > 2
        assert applied(imported.specs) == imported.specs


def test_cronjobs_come_back_from_yaml() -> None:
    imported = read(FULL, cronjob("a"), cronjob("b", schedule="@every 1500ms", concurrencyPolicy="Replace"))
    assert imported.errors == []
    assert applied(imported.specs) == imported.specs
