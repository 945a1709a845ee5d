"""Generate load for the demo: customers who order, pay, upload pictures and have expired cards."""

from __future__ import annotations

from random import Random

from tickwork.cli.demo.shop_tasks import (
    charge_card,
    close_books,
    import_catalogue,
    make_thumbnail,
    pay_order,
    place_order,
    send_mail,
    sync_customer,
)

_ORDERS_PER_TICK = 3
_PAID = 0.7  # the share of orders that are paid
_FIELDS = ("address", "basket", "language", "points", "wishes")


class Shop:
    """The simulated customers of the shop. Each tick is one second."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._seconds = 0
        self._orders = 1000

    def tick(self) -> None:
        """Enqueue the jobs of one second."""
        for _ in range(self._rng.randint(1, _ORDERS_PER_TICK)):
            self._order()
        make_thumbnail.enqueue_many([(self._orders, width) for width in (32, 48, 64)])
        if self._seconds == 1:
            close_books.enqueue()  # the first run; later ones come from its schedule
        if self._seconds % 3 == 2:
            charge_card.enqueue(f"****{self._rng.randrange(10_000):04d}", self._rng.randrange(100, 9000))
        if self._seconds % 6 == 3:
            sync_customer.enqueue_many([(f"customer-{self._orders}", field) for field in _FIELDS])
        if self._seconds % 15 == 5:
            import_catalogue.enqueue(rows=300)
        if self._seconds % 30 == 10:
            send_mail.enqueue_many([(f"reader-{n}@example.org", "Our newsletter") for n in range(150)])
        self._seconds += 1

    def _order(self) -> None:
        self._orders += 1
        place_order.enqueue(self._orders)
        if self._rng.random() < _PAID:
            pay_order.options(delay=f"{self._rng.randint(2, 9)}s").enqueue(self._orders)
