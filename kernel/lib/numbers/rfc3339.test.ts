import t from 'tap'
import { rfc3339Nanos } from './rfc3339.ts'

t.test('times to the nanosecond', async (t) => {
  const cases: [string, bigint | undefined][] = [
    ['1970-01-01T00:00:00Z', 0n],
    ['1970-01-01T00:00:00.000000001Z', 1n],
    ['1970-01-01t01:00:00.5+01:00', 500_000_000n],
    ['1969-12-31T23:59:59.9999999999z', -1n],
    ['2024-02-29T00:00:00Z', 1_709_164_800_000_000_000n],
    ['0001-01-01T00:00:00Z', -62_135_596_800_000_000_000n],
    ['9999-12-31T23:59:59Z', 253_402_300_799_000_000_000n],
    ['2026-02-30T00:00:00Z', undefined],
    ['2026-02-29T00:00:00+01:00', undefined],
    ['2026-04-31T00:00:00Z', undefined],
    ['2026-01-01T24:00:00Z', undefined],
    ['2026-01-01T23:59:60Z', undefined],
    ['2026-01-01T00:00:00+24:00', undefined],
    ['1970-13-01T00:00:00Z', undefined],
    ['1970-01-01T00:00:00', undefined],
    ['1970-01-01 00:00:00Z', undefined],
    ['now()', undefined],
  ]
  for (const [text, nanos] of cases) t.equal(rfc3339Nanos(text), nanos, text)
})
