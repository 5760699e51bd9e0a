"""Fills the demo image: `first ROOT` writes the files, `day ROOT N` lives one day on them.

Everything comes from a seeded generator. Logs and tables are put together from segments that
come again on other days: the archive stays small, while each 128 KiB of a file is only as
compressible as such files are.
"""

import fcntl
import json
import os
import random
import struct
import sys

FICLONERANGE = 0x4020940D
WORDS = """account archive balance batch broker cache client commit cursor daemon delay device
entry event export field filter gateway handler index invoice journal kernel ledger limit lookup
message metric mirror monitor network number object offset order packet parcel payload pending
policy queue record region request result retry sample schema sector sensor session signal source
stream sync table target ticket token transfer update upload value volume window worker""".split()
PATHS = ["/", "/login", "/api/orders", "/api/items", "/static/app.js", "/feed", "/search", "/health"]
rng = random.Random(20)


def sentence(count):
    return " ".join(rng.choices(WORDS, k=count))


MESSAGES = [f"{unit}: {sentence(rng.randrange(4, 11))}" for unit in
            ["sshd", "cron", "kernel", "postfix/smtpd", "systemd", "dhclient", "dockerd"] for _ in range(9)]
CLIENTS = [".".join(str(rng.randrange(1, 255)) for _ in range(4)) for _ in range(60)]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "curl/8.5.0",
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36", "uptime-probe/2"]


def often(choices):
    """One of `choices`, the early ones far more often."""
    return choices[min(int(rng.expovariate(5 / len(choices))), len(choices) - 1)]


def syslog(clock):
    return f"{clock} atlas {often(MESSAGES)} ({often(range(500))})\n"


def access(clock):
    return (f'{often(CLIENTS)} - - [{clock} +0000] "GET {often(PATHS)} HTTP/1.1" '
            f'{often([200, 304, 404, 502])} {often(range(200, 2000))} "-" "{often(AGENTS)}"\n')


def sensors(clock):
    return f"{clock[:5]},sensor-{often(range(40)):02},{rng.gauss(21, 1):.1f},{rng.gauss(45, 3):.0f},ok\n"


def order(_clock):
    item = lambda: {"sku": often(WORDS) + "-" + often(WORDS), "count": often(range(1, 9))}
    return json.dumps({"id": rng.randrange(10**5), "customer": often(WORDS).title(), "items":
                       [item() for _ in range(3)], "note": often(MESSAGES), "paid": True}, indent=2) + ",\n"


def segment(line, hour, size):
    """An hour of lines: too many are made, and those from its end are cut off."""
    seconds = sorted(rng.randrange(3600) for _ in range(size // 25))
    lines = (line(f"{hour:02}:{second // 60:02}:{second % 60:02}") for second in seconds)
    return "".join(lines)[:size].encode()


POOL = {line: [[segment(line, hour, 52_000) for _ in range(variants)] for hour in range(24)]
        for line, variants in ((syslog, 2), (access, 2), (sensors, 1), (order, 1))}


def series(line, hours):
    """One file: a segment for each hour, each as on some other day."""
    return b"".join(rng.choice(POOL[line][hour % 24]) for hour in range(hours))


def source(size):
    out = []
    while sum(map(len, out)) < size:
        a, b, c = rng.sample(WORDS, 3)
        out.append(f"def {a}_{b}({c}, limit={rng.randrange(99)}):\n"
                   f'    """{sentence(8).capitalize()}."""\n'
                   f"    for {b} in {c}.{a}s(limit):\n"
                   f"        if {b}.is_{rng.choice(WORDS)}():\n"
                   f"            yield {a.title()}({b}, {c}, {rng.choice(WORDS)!r})\n\n\n")
    return "".join(out)[:size].encode()


def write(path, content, mode="wb"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as file:
        file.write(content)


def overwrite(path, at, content):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


def clone(path, at, length, into, to):
    """A partial reflink: `length` bytes of `path` from `at` become those of `into` at `to`."""
    with open(path, "rb") as old, open(into, "r+b") as new:
        fcntl.ioctl(new, FICLONERANGE, struct.pack("qQQQ", old.fileno(), at, length, to))


def fragmented(path, blocks):
    """Every block goes to disk alone, the last one first."""
    with open(path, "wb") as file:
        for block in reversed(range(blocks)):
            os.pwrite(file.fileno(), source(4096), block * 4096)
            os.fdatasync(file.fileno())


def first(root):
    log, mia, doc = f"{root}/system/var/log", f"{root}/home/mia", f"{root}/system/usr/share/doc"
    for day in range(1, 11):
        write(f"{log}/messages-{day:02}", series(syslog, 24))
        write(f"{log}/nginx/access.log.{day}", series(access, 24))
        write(f"{mia}/data/sensors-{day:02}.csv", series(sensors, 24))
    for year in (2023, 2024):
        write(f"{log}/archive/messages-{year}", series(syslog, 20))
    for part in range(1, 5):
        write(f"{mia}/data/orders-{part}.json", b"[\n" + series(order, 30))
    write(f"{mia}/backup/orders-old.json", series(order, 16))
    for package in sorted(rng.sample(WORDS, 40)):
        write(f"{doc}/{package}/README", source(rng.randrange(300, 40_000)))
        write(f"{doc}/{package}/copyright", sentence(rng.randrange(20, 200)).encode())
    for name in WORDS:
        write(f"{root}/system/etc/{name}.conf", sentence(rng.randrange(5, 250)).encode())
        write(f"{mia}/projects/tracker/{rng.choice(WORDS)}/{name}.py", source(rng.randrange(200, 24_000)))
    for name in ("Übersicht.txt", "年度报告.txt", "меню 🍲.txt", "a very long name that says nearly everything about it.txt"):
        write(f"{mia}/notes/{name}", (sentence(3000) + "\n").encode())
    write(f"{mia}/pictures/harbour.jpg", rng.randbytes(150_000))
    write(f"{root}/system/var/lib/ledger.db", series(sensors, 30))
    fragmented(f"{mia}/data/index.btree", 160)
    write(f"{mia}/machines/disk.raw", series(syslog, 8))
    overwrite(f"{mia}/machines/disk.raw", 24 << 20, series(access, 20))


def day(root, today):
    log, mia = f"{root}/system/var/log", f"{root}/home/mia"
    write(f"{log}/messages-{today + 9:02}", series(syslog, 24))
    write(f"{log}/messages-{today + 8:02}", segment(syslog, 23, 5_000), "ab")
    write(f"{log}/nginx/access.log.{today}", series(access, 4), "ab")
    os.remove(f"{log}/messages-{today - 1:02}")
    overwrite(f"{mia}/data/sensors-{today:02}.csv", 200_000 + today * 4096, POOL[sensors][today][0][:20_000])
    overwrite(f"{mia}/data/orders-1.json", today * 131_072, POOL[order][today][0])
    clone(f"{mia}/data/orders-2.json", today * 65_536, 262_144, f"{mia}/data/orders-3.json", today * 131_072)
    write(f"{mia}/projects/tracker/{rng.choice(WORDS)}/day{today}.py", source(9_000))
    write(f"{mia}/notes/day {today}.txt", sentence(40 * today).encode())
    os.rename(f"{mia}/data/sensors-{today:02}.csv", f"{mia}/data/checked-{today:02}.csv")
    overwrite(f"{root}/system/var/lib/ledger.db", today * 40_960, POOL[sensors][today][0][:8192])


if sys.argv[1] == "first":
    first(sys.argv[2])
else:
    rng.seed(int(sys.argv[3]))
    day(sys.argv[2], int(sys.argv[3]))
