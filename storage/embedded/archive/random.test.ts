/** Random writes, deletes, drops, restarts and runs of the archive: the answers are those of an engine that archives nothing. SVC_SEED=<n> repeats one, SVC_STEPS sets their length. */
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(300_000)
const SEEDS = process.env.SVC_SEED === undefined ? [1, 5] : [Number(process.env.SVC_SEED)]
const STEPS = Number(process.env.SVC_STEPS ?? 30)
const HOUR = 3_600_000_000_000n
const MEASUREMENTS = ['own', 'one', 'two']
const CONFIG = { ooo_shard_tolerance: 1_000_000, compaction_fan_in: 6, deleted_rows_rewrite_secs: 0 }

async function opened(dir: string): Promise<EmbeddedEngine> {
  const engine = new EmbeddedEngine(testContext({ ...CONFIG, data_dir: join(dir, 'data') }, () => NOW_MS))
  await engine.open()
  return engine
}

for (const seed of SEEDS) {
  t.test(`seed ${seed}`, async (t) => {
    const random = seeded(seed)
    const pick = (n: number): number => Math.floor(random() * n)
    const [dir, plainDir] = [tempDir(), tempDir()]
    const remote = pick(2) === 1
    const attached = async (): Promise<EmbeddedEngine> => {
      const engine = await opened(dir)
      engine.archive.attach(folderStore(join(dir, 'cold'), remote))
      return engine
    }
    let [engine, plain] = [await attached(), await opened(plainDir)]
    const both = async (body: (one: EmbeddedEngine) => Promise<unknown>): Promise<void> => {
      for (const one of [engine, plain]) await body(one)
    }
    // The newest time is what age is measured from.
    await both((one) => writeFloat(one, 'own', 'h0', NOW, { a: 0, b: 0 }))
    await both((one) => one.flush())
    let objects = 0
    for (let step = 0; step < STEPS; step++) {
      const measurement = MEASUREMENTS[pick(3)]
      const action = pick(20)
      if (action < 11) {
        const [day, count] = [pick(12), 1 + pick(12)]
        const points = Array.from({ length: count }, () => ({
          host: `h${pick(4)}`,
          time: NOW - BigInt(day * 24 + pick(20)) * HOUR,
          value: pick(100) / 4,
          both: pick(2),
        }))
        await both(async (one) => {
          for (const { host, time, value, both } of points) {
            const fields = measurement === 'own' ? { [both ? 'a' : 'b']: value } : { value }
            await writeFloat(one, measurement, host, time, fields, { backfill: true })
          }
        })
        if (pick(5) > 0) await both((one) => one.flush())
      } else if (action < 15) {
        await both((one) => one.flush())
        const result = await engine.archive.run({ coldAfterSecs: pick(6) * 86_400, maxObjects: 1 + pick(8) })
        if (result.failure !== undefined) throw result.failure
        objects += result.objects
      } else if (action < 17) {
        const start = NOW - BigInt(pick(300)) * HOUR
        const request = { namespace: '', measurement, start, end: start + BigInt(pick(60)) * HOUR }
        const matchers = pick(2) === 0 ? {} : { matchers: [{ tag: 'host', op: '=' as const, value: `h${pick(4)}` }] }
        await both((one) => one.delete({ ...request, ...matchers }).catch(ignoreUnknown))
      } else if (action < 18) await both((one) => one.tidy())
      else if (action < 19) {
        if (pick(3) === 0) await both((one) => one.drop('', measurement).catch(ignoreUnknown))
      } else {
        await both((one) => one.close())
        ;[engine, plain] = [await attached(), await opened(plainDir)]
      }
      for (const name of MEASUREMENTS) {
        const [found, wanted] = [await rowsOf(engine, name), await rowsOf(plain, name)]
        if (found.join('\n') !== wanted.join('\n')) {
          t.same(found, wanted, `seed ${seed}, step ${step}, ${name}`)
          await engine.close()
          return closeAndRemove(plain, dir, plainDir)
        }
      }
    }
    t.ok(objects > 0, `${objects} objects`)
    await engine.close()
    await closeAndRemove(plain, dir, plainDir)
  })
}

function ignoreUnknown(error: { code?: string }): void {
  if (error.code !== 'NOT_FOUND') throw error
}
