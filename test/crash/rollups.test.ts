/** The short form of rollups.ts, and the same work without crashes. SVC_SEED repeats a run, SVC_STEPS and SVC_KILLS set the length. */
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { type Ask, FEW_SERIES, manyTiers, modelDatabase, modelSection, RollupWorld } from './rollup-model.ts'
import { killRollups } from './rollups.ts'

t.setTimeout(600_000)
const { SVC_SEED = String(Date.now() % 1e9), SVC_STEPS = '60', SVC_KILLS = '4' } = process.env
t.comment(`SVC_SEED=${SVC_SEED}`)

async function start(t: Test, storage: string, more: object = {}): Promise<Ask> {
  const config = { database: modelDatabase, rollups: { ...modelSection, ...more } }
  const node = await boot({ plugins: ['native', 'line_protocol', 'rollups'], storage, config })
  t.teardown(() => node.stop())
  const ask: Ask = async (method, url, body, text = false) => {
    const payload =
      body === undefined
        ? {}
        : { payload: typeof body === 'string' ? body : JSON.stringify(body), headers: { 'content-type': text ? 'text/plain' : 'application/json' } }
    const answer = await node.inject({ method: method as 'GET', url, ...payload })
    return { status: answer.statusCode, body: answer.body }
  }
  return ask
}

for (const storage of ['memory', 'embedded']) {
  t.test(`targets are what all raw points come to, after every step (${storage})`, async (t) => {
    const ask = await start(t, storage)
    const world = new RollupWorld(Number(SVC_SEED))
    await world.begin(ask)
    for (let step = 0; step < Number(SVC_STEPS); step++) {
      const done = await world.step(ask)
      // Else the next change comes while this one is being dealt with.
      if (world.random() < 0.4) continue
      try {
        await world.settled(ask)
      } catch (error) {
        t.fail(`step ${step}, ${done}: ${(error as Error).message}`)
        return
      }
    }
    await t.resolves(world.settled(ask))
  })
}

for (const [storage, bytes] of [
  ['memory', 134_217_728],
  // Too little for all of them at once.
  ['memory', 65_536],
  ['embedded', 134_217_728],
] as const) {
  t.test(
    `rollups that share scans are what each by itself comes to, beside one that fails and some that go (${storage}, ${bytes} bytes a slice)`,
    async (t) => {
      const ask = await start(t, storage, { max_series_per_rollup: FEW_SERIES, max_slice_bytes: bytes })
      const world = new RollupWorld(Number(SVC_SEED), manyTiers)
      await world.begin(ask)
      const steps = Number(SVC_STEPS) / 2
      for (let step = 0; step < steps; step++) {
        const done = await world.step(ask)
        if (step > 0 && step % Math.ceil(steps / 4) === 0) await world.dropRollup(ask)
        if (world.random() < 0.6) continue
        try {
          await world.settled(ask)
        } catch (error) {
          t.fail(`step ${step}, ${done}: ${(error as Error).message}`)
          return
        }
      }
      await world.crowd(ask)
      await t.resolves(world.settled(ask))
      const { items } = JSON.parse((await ask('GET', '/api/v1/rollups')).body) as { items: { name: string; last_error: string | null }[] }
      t.match(items.find(({ name }) => name === 'fails')?.last_error, /max_series_per_rollup/)
      t.equal(items.length, 11)
    },
  )
}

t.test('a kill at any moment neither loses nor doubles a bucket', async (t) => {
  await t.resolves(killRollups(Number(SVC_KILLS), Number(SVC_SEED), (line) => t.comment(line)))
})
