/** What the queue takes of the disk: never more than max_size, however many write at one time, and whatever they write. */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { f64, NOW, str, type TestPoint, write } from '../conformance/points.ts'
import { edgeOf } from './testing.ts'

const MIB = 1024 * 1024
const MAX = 4 * MIB
const NOBODY = { name: 'one', url: 'http://127.0.0.1:9' }

const texts = (n: number): TestPoint[] => [{ measurement: 'log', tags: { host: `h${n}` }, time: NOW + BigInt(n), fields: { text: str('x'.repeat(200_000)) } }]
/** Little but names: ten series of 40 KB each. */
const names = (n: number): TestPoint[] =>
  Array.from({ length: 10 }, (_, i) => {
    const tags = Object.fromEntries(Array.from({ length: 20 }, (_, tag) => [`tag${tag}`, `${n}-${i}-`.padEnd(2000, 'x')]))
    return { measurement: 'named', tags, time: NOW, fields: { v: f64(n) } }
  })

for (const [what, points] of Object.entries({ texts, names })) {
  for (const when_full of ['refuse', 'drop_oldest'] as const) {
    t.test(`many that write ${what} at one time, when_full = ${when_full}`, async (t) => {
      const data_dir = temporaryFolder(t)
      const edge = edgeOf({
        data_dir,
        max_tag_value_bytes: 4096,
        max_string_bytes: MIB,
        forward: { upstream: [NOBODY], max_size: MAX, file_size: 256 * 1024, when_full },
      })
      await edge.open()
      t.teardown(() => edge.close())
      const onDisk = (): number => {
        const files = readdirSync(join(data_dir, 'queue'))
        return files.reduce((sum, name) => sum + statSync(join(data_dir, 'queue', name)).size, 0)
      }
      let taken = 0
      let tried = 0
      for (let round = 0; round < 3; round++) {
        const results = await Promise.allSettled(Array.from({ length: 40 }, () => write(edge, points(tried++), { namespace: '' })))
        for (const result of results) {
          if (result.status === 'fulfilled') taken++
          else t.match(result.reason, { code: 'STORAGE_FULL' })
        }
        t.ok(onDisk() <= MAX, `${onDisk()} bytes are on the disk in round ${round}`)
      }
      t.ok(taken >= 7, `${taken} were taken`)
      if (when_full === 'refuse') return
      // The file that was written to goes with another try.
      while (
        await write(edge, points(tried++), { namespace: '' }).then(
          () => false,
          () => true,
        )
      )
        await new Promise((go) => setImmediate(go))
      t.ok(onDisk() <= MAX, `${onDisk()} bytes are on the disk`)
    })
  }
}
