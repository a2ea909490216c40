"""Runs the functions of a client program whose names begin with check_, and prints of each how it went: `ok <name>` or `not ok <name>` with the
reason as a JSON string, and at last `end <how many>`. `program.ts` makes a test of each line."""
import json
import sys
import traceback
import urllib.request


def flat(text):
    return ' '.join(str(text).split())


def run(module):
    found = [(name, value) for name, value in vars(module).items() if name.startswith('check_')]
    only = sys.argv[-1] if sys.argv[-1].startswith('check_') else None
    ran = 0
    for name, check in found:
        if only not in (None, name):
            continue
        ran += 1
        title = flat(check.__doc__ or name)
        try:
            check()
            print(f'ok {title}', flush=True)
        except Exception:
            print(f'not ok {title}\t{json.dumps(traceback.format_exc())}', flush=True)
    print(f'end {ran}', flush=True)


def equal(actual, expected, what='value'):
    if actual != expected:
        raise AssertionError(f'{what}: {actual!r} is not {expected!r}')


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError(f'{part!r} is not in {text!r}')


def fails(error, call, *parts):
    """The call raises the error, and its text has the parts. Returns the error."""
    try:
        call()
    except error as raised:
        contains(str(raised), *parts)
        return raised
    raise AssertionError(f'{error} was not raised')


def fault(url, code, left=1):
    """The server's next writes fail with the code: see faults.ts."""
    body = json.dumps({'code': code, 'left': left}).encode()
    urllib.request.urlopen(urllib.request.Request(f'{url}/faults', body, {'content-type': 'application/json'}, method='PUT')).read()
