/** The short form of rollups.ts, and the same work without crashes. SVC_SEED repeats a run, SVC_STEPS and SVC_KILLS set the length. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { type Ask, modelDatabase, modelSection, RollupWorld } from './rollup-model.ts'
import { killRollups } from './rollups.ts'

t.setTimeout(600_000)
const { SVC_SEED = String(Date.now() % 1e9), SVC_STEPS = '60', SVC_KILLS = '4' } = process.env
t.comment(`SVC_SEED=${SVC_SEED}`)

for (const storage of ['memory', 'embedded']) {
  t.test(`targets are what all raw points come to, after every step (${storage})`, async (t) => {
    const node = await boot({ plugins: ['native', 'line_protocol', 'rollups'], storage, config: { database: modelDatabase, rollups: modelSection } })
    t.teardown(() => node.stop())
    const ask: Ask = async (method, url, body, text = false) => {
      const payload =
        body === undefined
          ? {}
          : { payload: typeof body === 'string' ? body : JSON.stringify(body), headers: { 'content-type': text ? 'text/plain' : 'application/json' } }
      const answer = await node.inject({ method: method as 'GET', url, ...payload })
      return { status: answer.statusCode, body: answer.body }
    }
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

t.test('a kill at any moment neither loses nor doubles a bucket', async (t) => {
  await t.resolves(killRollups(Number(SVC_KILLS), Number(SVC_SEED), (line) => t.comment(line)))
})
