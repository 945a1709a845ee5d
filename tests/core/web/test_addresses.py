"""Which addresses a request may go to."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.web.addresses import AllowedAddresses, closed, disguised, read_address, read_allowed
from tickwork.errors import InvalidInput

NAT64 = IPv6Network("64:ff9b::/96")
CLOSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "100.64.0.1": "shared by a carrier",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "192.0.0.8": "reserved",
    "198.18.0.1": "reserved",
    "224.0.0.1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "fc00::1": "private",
    "fd12::1": "private",
    "fe80::1": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::127.0.0.1": "reserved",
    "2002:7f00:1::": "loopback",
    "2002:a9fe:a9fe::1": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a00:1": "private",
    "64:ff9b:1::1": "reserved",
    "2001::1": "reserved",
    "2001:db8::1": "reserved",
    "100::1": "reserved",
}


@pytest.mark.parametrize("text", CLOSED)
def test_an_address_that_is_not_public_is_closed(text: str) -> None:
    assert closed(ip_address(text)) == CLOSED[text]


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::"]
)
def test_a_public_address_is_open(text: str) -> None:
    assert closed(ip_address(text)) is None


@given(st.integers(0, 2**32 - 1))
def test_an_address_inside_of_another_is_judged_as_itself(number: int) -> None:
    inner = IPv4Address(number)
    for outer in ((0xFFFF << 32) + number, (0x64FF9B << 96) + number, (0x2002 << 112) + (number << 80)):
        assert closed(IPv6Address(outer)) == closed(inner)


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_open(address: IPv4Address | IPv6Address) -> None:
    if isinstance(address, IPv6Address) and (address.sixtofour or address.ipv4_mapped or address in NAT64):
        return  # it is judged as the address inside of it, which versions of Python see differently
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        assert closed(address) is not None


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "1.2.3.04"])
def test_a_number_in_disguise_is_no_host(host: str) -> None:
    assert disguised(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "example.org", "a.b3", "0x7f.example", "3com.com", "localhost"])
def test_addresses_and_names_are_no_disguise(host: str) -> None:
    assert not disguised(host)


def test_one_bad_address_among_good_ones_is_enough() -> None:
    found = [read_address("1.1.1.1"), read_address("fe80::1%eth0")]
    assert AllowedAddresses().refusal("two.example", found) == "two.example is fe80::1, which is link-local"
    assert AllowedAddresses().refusal("two.example", found[:1]) is None


def test_operators_allow_names_and_networks() -> None:
    allowed = read_allowed("intranet.example, 10.1.0.0/16 ::1")
    assert allowed.refusal("Intranet.Example.", [read_address("192.168.0.1")]) is None
    assert allowed.refusal("x", [read_address("10.1.2.3"), read_address("::1")]) is None
    assert allowed.refusal("x", [read_address("::ffff:10.1.2.3")]) is None
    assert allowed.refusal("x", [read_address("10.2.0.1")]) == "x is 10.2.0.1, which is private"
    assert allowed.refusal("10.2.0.1", [read_address("10.2.0.1")]) == "10.2.0.1 is private"


@pytest.mark.parametrize("text", ["10.0.0.1/8", "host:80", "http://host/", "0x7f"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="neither a host nor a network"):
        read_allowed(text)
