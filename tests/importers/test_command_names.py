"""Names of commands: short, telling, always the same, and ones that a schedule can have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.job_options import schedule_name
from tickwork.importers.crontab import name_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --full > /dev/null 2>&1", "backup.sh"),
        ("cd / && run-parts --report /etc/cron.hourly", "run-parts-cron.hourly"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts-cron.daily"),
        ("test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r", "e2scrub_all"),
        ("[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi", "sessionclean"),
        ("test -x /usr/bin/certbot && perl -e 'sleep int(rand(43200))' && certbot -q renew", "certbot-renew"),
        ("if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; then checkarray --cron; fi", "checkarray"),
        ("php /srv/app/artisan schedule:run >> /dev/null 2>&1", "php-artisan-schedule-run"),
        ("pg_dump shop | gzip > /backup/shop.gz", "pg_dump-shop"),
        ("flock -n /tmp/x.lock nice -n 10 /opt/sync.sh", "sync.sh"),
        ("sudo -u www-data wp cron event run --due-now", "wp-cron-event"),
        ("/usr/bin/env LANG=C python3 manage.py clearsessions", "python3-manage.py-clearsessions"),
        ("(cd /srv && make report) 2>&1 | logger -t report", "make-report"),
        ("[ -x /usr/bin/apt-get ] || exit 0; apt-get update", "apt-get-update"),
        ("curl -fsS https://example.org/ping/abc > /dev/null", "curl-abc"),
        (">/tmp/out date", "date"),
        ("$HOME/bin/tidy", "tidy"),
        ("cd /", "cd"),
        ("echo 'not closed", "echo-not-closed"),
        ("ñandú --rápido", "and"),
        ("$X", "command"),
        ("|", "command"),
    ],
)
def test_a_name_says_what_the_command_does(command: str, name: str) -> None:
    assert name_of(command) == name


@given(st.one_of(st.text(), st.text(alphabet=" ab/-.$'\"`()[]{};&|<>!=\\\n2")))
def test_every_command_has_a_name_that_a_schedule_can_have(command: str) -> None:
    name = name_of(command)
    assert schedule_name(name) == name
    assert name == name_of(command)
    assert len(name) <= 60
