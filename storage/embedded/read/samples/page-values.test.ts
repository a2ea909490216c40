/** Integers of segments, whatever their size: those that are kept take no more bytes than they need, and are what was written. */
import type { SampleRequest } from 'svcdb/lib/columns'
import t from 'tap'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const START = 1_700_000_000_000_000_000n
const ROWS = 2000
const REQUEST: SampleRequest = { namespace: 'default', measurement: 'm', field: 'x' }
const CASES = [
  { type: 'int64', value: (i: number) => BigInt(i % 256) - 128n, bytes: 1 },
  { type: 'int64', value: (i: number) => BigInt(i % 256) - 129n, bytes: 2 },
  { type: 'int64', value: (i: number) => (i % 2 === 0 ? 2n ** 31n - 1n : -(2n ** 31n)), bytes: 4 },
  { type: 'int64', value: (i: number) => 2n ** 31n - BigInt(i % 2), bytes: 8 },
  { type: 'int64', value: (i: number) => -(2n ** 31n) - BigInt(i % 2), bytes: 8 },
  { type: 'uint64', value: (i: number) => BigInt(i % 100), bytes: 1 },
  { type: 'uint64', value: (i: number) => 2n ** 32n - 1n - BigInt(i % 100), bytes: 8 },
  { type: 'uint64', value: (i: number) => 2n ** 64n - 1n - BigInt(i % 100), bytes: 8 },
  { type: 'float64', value: (i: number) => (i % 200) / 10, bytes: 2 },
  { type: 'float64', value: (i: number) => (i % 2) * 2 ** 40 + 1, bytes: 8 },
] as const

for (const { type, value, bytes } of CASES)
  t.test(`${type} ${value(0)}, ${value(1)}, ...`, async (t) => {
    for (const sparse of [false, true]) {
      const db = new TestDatabase()
      t.teardown(() => db.close())
      const m = db.measurement('m', { x: type, y: 'float64' })
      const present = (i: number): boolean => !sparse || i % 3 > 0
      db.write(
        m,
        Array.from(
          { length: ROWS },
          (_, i): TestPoint => ({
            tags: { host: `h${i % 2}` },
            time: START + BigInt(i) * 1_000_000n,
            fields: present(i) ? { x: value(i), y: 1 } : { y: 1 },
          }),
        ),
      )
      await db.flush()
      const right = [0, 1].flatMap((host) => Array.from({ length: ROWS }, (_, i) => i).filter((i) => i % 2 === host && present(i))).map((i) => Number(value(i)))
      // The second has no room for what it decodes.
      for (const room of [1 << 20, 1000]) {
        const sampleBlocks = new SampleBlocks(room)
        const read = async (way: 'blocks' | 'stored'): Promise<{ values: number[]; widths: number[] }> => {
          const set = await selectSamples({ ...(await db.context()), sampleBlocks }, db.state.snapshotNow() as Snapshot, REQUEST, undefined)
          const out: { values: number[]; widths: number[] } = { values: [], widths: [] }
          for await (const rows of way === 'blocks' ? set.blocks() : set.stored!()) {
            if ('times' in rows) out.values.push(...rows.values)
            else
              for (let r = 0; r < rows.runs.length; r += 3) {
                const { values, divisor = 1 } = rows.stored[rows.runs[r]]
                out.widths.push(values.BYTES_PER_ELEMENT)
                for (let i = rows.runs[r + 1]; i < rows.runs[r + 2]; i++) out.values.push(values[i] / divisor)
              }
          }
          return out
        }
        for (const way of ['blocks', 'stored', 'stored'] as const) {
          const { values, widths } = await read(way)
          t.same(values, right, `${way}, ${room} bytes, ${sparse ? 'sparse' : 'dense'}`)
          if (room > 1000)
            t.ok(
              widths.every((width) => width === bytes),
              `${widths} bytes each`,
            )
        }
      }
    }
  })
