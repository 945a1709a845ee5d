"""Code of tasks gets secrets from its worker, which masks them, and not from the vault."""

from pathlib import Path

import pytest

from tests.cli.programs import program
from tests.worker.job_helpers import output_of
from tickwork import Tickwork

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

CANARY = "canary-of-a-vault"
SHOP = """
import threading
from tickwork import Tickwork, current_job
app = Tickwork()

def told(call):
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

@app.task(retries=0)
def asks_the_vault() -> list[str]:
    calls = [
        lambda: app.vault.get("TOKEN"),
        lambda: Tickwork(app.url).vault.get("TOKEN"),
        lambda: app.vault.get("NOTHING"),
        lambda: app.vault.put("TOKEN", "another", "a task"),
    ]
    found = [told(call) for call in calls]
    threads = [threading.Thread(target=lambda call=call: found.append(told(call))) for call in calls[:2]]
    for thread in threads:
        thread.start()
        thread.join()
    print(found)
    return found

@app.task(retries=0)
def asks_the_worker() -> str:
    return current_job().secret("TOKEN")
"""


@pytest.mark.parametrize("key", [None, "c0ffee" * 10 + "c0de"], ids=["key file", "environment"])
def test_the_vault_refuses_code_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    given = {"TICKWORK_URL": f"sqlite:///{tmp_path}/t.db", **({} if key is None else {"TICKWORK_SECRET_KEY": key})}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.py").write_text(SHOP)
    app = Tickwork(given["TICKWORK_URL"])
    app.vault.put("TOKEN", CANARY, "ada")
    with program(tmp_path, "worker", "shop.py", "--processes", "1", **given):
        job = app.named("asks_the_vault").enqueue()
        found = job.result(timeout=30)
        assert len(found) == 6
        assert {text.partition(":")[0] for text in found} == {"SecretError"}, found
        assert all("current_job().secret('TOKEN')" in text for text in (found[0], found[1], found[3]))
        assert "TICKWORK_SECRET_KEY" not in str(found)
        assert CANARY not in output_of(job, 1)
        assert app.named("asks_the_worker").enqueue().result(timeout=30) == "***"
    assert app.vault.get("TOKEN") == CANARY
    app.close()
