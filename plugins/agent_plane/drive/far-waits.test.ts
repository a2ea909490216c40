/** Waits for what has no date: the code of the step gets an error, and the pass comes to an end. */
import type { StepContext } from 'svcdb/agents'
import { AgentRunner } from 'svcdb/agents/testkit'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'
import { oneAgent } from '../testing/one-agent.ts'

const FAR = [8.7e15, Number.MAX_SAFE_INTEGER, 1e300, -8.7e15, Number.POSITIVE_INFINITY, Number.NaN]
const WAITS: Record<string, (context: StepContext, ms: number) => Promise<unknown>> = {
  sleep: async (context, ms) => context.sleep(ms),
  sleepUntil: async (context, ms) => context.sleepUntil(ms),
  awaitEvent: async (context, ms) => context.awaitEvent({ kind: 'told', correlation: [], withinMs: ms }),
}

t.test('a wait that would end at no date is refused', async (t) => {
  for (const [name, wait] of Object.entries(WAITS))
    for (const ms of FAR) {
      const { driver, run } = await controlled([
        skill('waits', async (context) => {
          const refused: string[] = []
          await wait(context, ms).catch((error: Error) => refused.push(error.message))
          await context.effect({ kind: 'look', args: null, mutates: false }, async () => null)
          return refused
        }),
      ])
      const one = driver()
      const { run: id, status } = await run(one, 'waits')
      t.equal(status, 'succeeded', `${name} ${ms}`)
      t.match(await one.replay(id), { divergences: [], output: [/cannot wait .*milliseconds/] }, `${name} ${ms}`)
    }
})

t.test('the last waits that there are', async (t) => {
  const { driver, run } = await controlled([skill('waits', async (context) => void (await context.sleep(8.6e15)) as never)])
  const { status } = await run(driver(), 'waits')
  t.equal(status, 'suspended')
})

t.test('a commission of such a time begins no run', async (t) => {
  const hand = oneAgent('hand', async () => 'done')
  const boss = oneAgent('boss', async (context) => context.commission({ capability: 'hand.do', input: null, withinMs: Number.NaN }), ['hand'])
  const runner = await AgentRunner.create({ agents: [hand, boss] })
  const { status, reason, run } = await runner.run('boss.do', null)
  t.match({ status, reason }, { status: 'failed', reason: /cannot wait .*milliseconds/ })
  t.same(
    (await runner.journal(run)).filter(({ kind }) => kind === 'EffectStarted'),
    [],
  )
})
