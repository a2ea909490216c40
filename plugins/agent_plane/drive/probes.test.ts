/** What a probe says that fails: nothing, whichever way it fails. */
import { defineSkill, EffectError, type ProbeAnswer } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'

const failing: Record<string, () => Promise<ProbeAnswer>> = {
  rejects: () => Promise.reject(new Error('it is away')),
  'throws before it gives a promise': () => {
    throw new Error('it is away')
  },
}

for (const [how, probe] of Object.entries(failing))
  t.test(`a probe that ${how} leaves the effect in doubt`, async (t) => {
    const caught: string[] = []
    const skill = defineSkill({
      capability: 'pay.do',
      summary: 'Of a test',
      input: Type.Any(),
      output: Type.Any(),
      invoke: (ctx) =>
        ctx
          .effect({ kind: 'pay', args: 1, mutates: true, recovery: 'reconcile', probe }, async () => {
            throw new EffectError('the line was cut', { disposition: 'in_doubt' })
          })
          .catch(({ message }: Error) => {
            caught.push(message)
            return 'not paid'
          }),
    })
    const { run, plane } = await start(t, [skill])
    const { status, run: id } = await run('pay.do', null)
    t.equal(status, 'quarantined')
    t.same(caught, [], 'the step is told nothing, as nobody knows')
    t.match((await plane.standing(id)).undecided, [{ kind: 'pay' }])
  })
