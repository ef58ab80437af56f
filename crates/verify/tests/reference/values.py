"""Values to 40 digits, by mpmath: `python3 values.py > values.txt`. A line is LaTeX, a tab, digits."""

from mpmath import acos, asin, atan, cosh, cos, cot, csc, e, exp, ln, log, mp, mpf, nstr, pi, sec, sin, sinh, sqrt, tan, tanh

mp.dps = 60

VALUES = {
    r"\pi": pi,
    r"e": +e,
    r"\sqrt{2}": sqrt(2),
    r"\sqrt[3]{7}": mpf(7) ** (mpf(1) / 3),
    r"2^{\sqrt{3}}": 2 ** sqrt(3),
    r"\pi^{e}": pi**e,
    r"e^{\pi}-\pi": exp(pi) - pi,
    r"\ln 2": ln(2),
    r"\log_3 7": log(7) / log(3),
    r"\sin 1": sin(1),
    r"\cos 2": cos(2),
    r"\tan 10": tan(10),
    r"\cot 3": cot(3),
    r"\sec 4": sec(4),
    r"\csc 5": csc(5),
    r"\arcsin\frac{1}{3}": asin(mpf(1) / 3),
    r"\arccos\frac{1}{3}": acos(mpf(1) / 3),
    r"\arctan 7": atan(7),
    r"\sinh 2": sinh(2),
    r"\cosh 2": cosh(2),
    r"\tanh 2": tanh(2),
    r"\exp(-20)": exp(-20),
    r"\sin 20^\circ": sin(pi / 9),
    r"\sqrt{2+\sqrt{3+\sqrt{5}}}": sqrt(2 + sqrt(3 + sqrt(5))),
    r"|3+\sqrt{2}i|": sqrt(11),
    r"\sum_{k=1}^{20}\frac{1}{k^2}": sum(mpf(1) / k**2 for k in range(1, 21)),
}

for name, value in VALUES.items():
    print(f"{name}\t{nstr(value, 42, min_fixed=-100, max_fixed=100)}")
