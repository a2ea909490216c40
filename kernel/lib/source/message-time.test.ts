import t from 'tap'
import { messageTime } from './message-time.ts'

t.test('nanoseconds or RFC 3339', async (t) => {
  const cases: [string, bigint][] = [
    ['0', 0n],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['2026-01-02T03:04:05.000000006Z', 1_767_323_045_000_000_006n],
    ['1960-01-01T00:00:00+01:00', -315_622_800_000_000_000n],
  ]
  for (const [text, nanos] of cases) t.equal(messageTime(text, 'header "at"'), nanos, text)
})

t.test('what is no time, and what 64 bits do not hold, is refused', async (t) => {
  for (const text of [
    '',
    'yesterday',
    '-1',
    '1.5',
    '9223372036854775808',
    '2026-02-30T00:00:00Z',
    '0001-01-01T00:00:00Z',
    '2611-06-20T00:00:00Z',
    '9999-12-31T23:59:59Z',
  ])
    t.throws(() => messageTime(text, 'header "at"'), { code: 'INVALID_POINT', message: `cannot read header "at" as a time: "${text}"` }, text)
})
