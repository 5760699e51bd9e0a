"""Takes the pictures of the README: drives `btrpress --demo` in tmux, and draws what the terminal
shows as SVG. `make-screenshots.py PROGRAM DIRECTORY`; wants tmux."""

import html
import os
import re
import subprocess
import sys
import time
import unicodedata

COLUMNS, LINES = 112, 32
WIDTH, HEIGHT, SIZE = 8.4, 18, 14
GROUND, INK, CURSOR = "#15181e", "#d5dae3", "#444444"
SIXTEEN = ["#15181e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
           "#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff"]
# Blocks are drawn, so that no font leaves gaps between them: share of the cell, and how opaque.
BLOCKS = {sign: (part / 8, 1, 1) for part, sign in enumerate("▏▎▍▌▋▊▉█", 1)}
BLOCKS |= {sign: (1, part / 8, 1) for part, sign in enumerate("▁▂▃▄▅▆▇", 1)}
BLOCKS |= {"░": (1, 1, .22), "▒": (1, 1, .45), "▓": (1, 1, .7)}


class Terminal:
    def __init__(self, command):
        self.tmux = ["tmux", "-L", f"btrpress-{os.getpid()}", "-f", "/dev/null", "-u"]
        self.run("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), command)

    def run(self, *words):
        return subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True).stdout

    def press(self, *keys):
        for key in keys:
            self.run("send-keys", key)
            time.sleep(.15)

    def wait_for(self, what, patience=60):
        until = time.time() + patience
        while what not in (text := self.run("capture-pane", "-p")):
            assert time.time() < until, f"never seen: {what}\n{text}"
            time.sleep(.1)

    def draw(self):
        return svg(self.run("capture-pane", "-e", "-p").rstrip("\n").split("\n"))


def indexed(number):
    if number < 16:
        return SIXTEEN[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    levels = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#" + "".join(f"{levels[n]:02x}" for n in (number // 36, number // 6 % 6, number % 6))


def apply(style, codes):
    codes = [int(code or 0) for code in codes.split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style.clear()
        elif code in (1, 2, 7):
            style[{1: "bold", 2: "dim", 7: "reversed"}[code]] = True
        elif code == 22:
            style.pop("bold", None), style.pop("dim", None)
        elif code == 27:
            style.pop("reversed", None)
        elif code in (38, 48):
            codes.pop(0)
            style["fg" if code == 38 else "bg"] = indexed(codes.pop(0))
        elif code in (39, 49):
            style.pop("fg" if code == 39 else "bg", None)
        else:
            for first, shift, what in ((30, 0, "fg"), (40, 0, "bg"), (90, 8, "fg"), (100, 8, "bg")):
                if first <= code < first + 8:
                    style[what] = SIXTEEN[code - first + shift]


def cells(line):
    """Each character with its column, width and style."""
    style, column = {}, 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            apply(style, part[2:-1])
            continue
        for sign in part:
            if sign < " " or unicodedata.combining(sign):
                continue
            width = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
            yield sign, column, width, dict(style)
            column += width


def rect(x, y, width, height, fill, more=""):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{more}/>'


def row(line, top):
    grounds, texts, run = [], [], None

    def flush():
        if run and run[2].strip():
            x, length, text, fill, bold = run
            weight = ' font-weight="bold"' if bold else ""
            texts.append(f'<text x="{x:.1f}" y="{top + SIZE:.1f}" fill="{fill}"{weight} '
                         f'textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>')

    for sign, column, width, style in cells(line):
        x, length = column * WIDTH, width * WIDTH
        fg, bg = style.get("fg", INK), style.get("bg")
        if style.get("reversed"):
            fg, bg = bg or GROUND, fg
        if style.get("dim"):
            fg = "#7f8794"
        # Beside a part of a bar, the ground is the next part of it; elsewhere it is the cursor's row.
        inset = 3 if sign in BLOCKS and bg != CURSOR else 0
        if bg:
            grounds.append(rect(x, top + inset, length + .3, HEIGHT + .3 - 2 * inset, bg))
        if sign in BLOCKS:
            across, up, opacity = BLOCKS[sign]
            height = HEIGHT * up if up < 1 else HEIGHT - 6
            y = top + HEIGHT - height if up < 1 else top + 3
            grounds.append(rect(x, y, length * across + .2, height, fg, f' opacity="{opacity}"'))
            flush()
            run = None
        elif sign == " ":
            # Each word has its own place, so that columns stand whatever the font.
            flush()
            run = None
        elif run and run[3] == fg and run[4] == bool(style.get("bold")) and width == 1:
            run[1] += length
            run[2] += sign
        else:
            flush()
            run = [x, length, sign, fg, bool(style.get("bold"))]
            if width > 1:
                flush()
                run = None
    flush()
    return grounds + texts


def svg(lines):
    width, height = COLUMNS * WIDTH + 24, LINES * HEIGHT + 24
    body = [part for number, line in enumerate(lines) for part in row(line, number * HEIGHT)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{SIZE}">',
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        '<g transform="translate(12 12)">', *body, "</g>", "</svg>", ""])


def main(program, directory):
    environment = "env LC_ALL=C.UTF-8 TERM=xterm-256color COLORTERM=truecolor"
    terminal = Terminal(f"{environment} {os.path.abspath(program)} --demo")

    def save(name):
        with open(f"{directory}/screenshot-{name}.svg", "w") as file:
            file.write(terminal.draw())

    try:
        terminal.wait_for("zstd")
        terminal.wait_for("generation")
        time.sleep(1)
        save("overview")
        terminal.press("j", "Enter")
        terminal.wait_for("mia/")
        terminal.press("l")
        terminal.wait_for("KiB")
        # `data` and `projects` by name, then in the order of size again.
        terminal.press("n", "g", "j", "Space", "G", "Space", "s", "g", "z")
        terminal.wait_for("shared with")
        time.sleep(15)
        save("plan")
        terminal.press("Enter")
        terminal.wait_for("Nothing has been written")
        terminal.press("Y")
        terminal.wait_for("Done in")
        time.sleep(4)
        save("run")
        terminal.press("q", "j", "Space", "Space")
        time.sleep(1)
        save("browser")
    finally:
        terminal.run("kill-server")


main(*sys.argv[1:])
