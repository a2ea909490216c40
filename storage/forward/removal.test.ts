/** Files of the queue that go by the hundred, after a restart with other bounds: they hold nobody up. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { NOW, NOW_MS, str, type TestPoint, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { edgeOf } from './testing.ts'

const KIB = 1024
const FILES = 150
const point = (n: number): TestPoint => ({ measurement: 'log', tags: {}, time: NOW + BigInt(n), fields: { text: str('x'.repeat(64 * KIB)) } })

for (const [what, bounds] of Object.entries({
  'a smaller max_size': { max_size: 4 * KIB * KIB, when_full: 'drop_oldest' },
  'an age': { max_age_secs: 60 },
})) {
  t.test(`a restart with ${what} removes files a few at a time`, { timeout: 60_000 }, async (t) => {
    const data_dir = temporaryFolder(t)
    let [turn, inTurn, most] = [0, 0, 0]
    let lastTurn = 0
    const fs = {
      ...realEnvironment.fs,
      unlinkSync: (path: string): void => {
        if (turn !== lastTurn) inTurn = 0
        lastTurn = turn
        most = Math.max(most, ++inTurn)
        realEnvironment.fs.unlinkSync(path)
      },
    }
    let now = NOW_MS
    const start = async (forward: Record<string, unknown>) => {
      const config = {
        data_dir,
        max_string_bytes: 128 * KIB,
        forward: { upstream: [{ name: 'one', url: 'http://127.0.0.1:9' }], file_size: 64 * KIB, ...forward },
      }
      const edge = edgeOf(config, { environment: { ...realEnvironment, fs, monotonic: () => now }, now: () => now })
      await edge.open()
      t.teardown(() => edge.close())
      return edge
    }
    const before = await start({})
    for (let n = 0; n < FILES; n++) await write(before, [point(n)], { namespace: '' })
    await before.close()
    const files = (): number => readdirSync(join(data_dir, 'queue')).length
    t.ok(files() >= FILES)

    let going = true
    const next = (): void => {
      turn++
      if (going) setImmediate(next)
    }
    setImmediate(next)
    now += 3_600_000
    const edge = await start(bounds)
    // What is left at a start of such an age.
    now += 31_000
    await write(edge, [point(FILES)], { namespace: '' })
    while (files() > 70) await new Promise((go) => setImmediate(go))
    going = false
    t.ok(most <= 16, `${most} files were removed in one turn of the event loop`)
    await edge.close()
    t.ok(files() <= 70, 'they stay away')
  })
}
