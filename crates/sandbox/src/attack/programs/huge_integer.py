"""One operation inside the interpreter that looks at no signal for minutes."""
sys.set_int_max_str_digits(0)
tried("str of ten million digits")
str(7 ** (1 << 25))
broken("finished")
