/** Figures of the plane as points: each is there, by PromQL, and moves with what it counts. */
import { setTimeout as pause } from 'node:timers/promises'
import { EffectError } from 'svcdb/agents'
import t from 'tap'
import { skill } from '../testing/control.ts'
import { start } from '../testing/node.ts'
import { CONDITIONS } from './conditions.ts'

const STATUSES = ['running', 'suspended', 'exhausted', 'failed', 'quarantined', 'withheld']
const RESULTS = ['done', 'failed', 'in_doubt']
const WAIT_MS = 20_000

t.test('what runs, what needs a person, and what effects took', async (t) => {
  const work = skill('work', (context) =>
    context.effect({ kind: 'look', args: null, mutates: false }, async () => {
      await pause(30)
      return 'seen'
    }),
  )
  const doubt = skill('doubt', (context) =>
    context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
      throw new EffectError('no answer', { disposition: 'in_doubt' })
    }),
  )
  const fails = skill('fails', (context) =>
    context.effect({ kind: 'try', args: null, mutates: true, maxAttempts: 1 }, async () => {
      throw new EffectError('not now', { disposition: 'did_not_happen', permanent: true })
    }),
  )
  const late = skill('late', async (context) => {
    await context.deadline('answer', { unit: 'minutes', n: 0 })
    await context.sleep(1e9)
    return null
  })
  const config = { agent_plane: { sweep_interval_secs: 0.05, figures_namespace: 'default', tenants: ['acme'] } }
  const plane = await start(t, [work, doubt, fails, late], { plugins: ['promql'], storage: 'embedded', config })
  const ask = async (query: string): Promise<Record<string, number>> => {
    const answer = await plane.node.inject(`/api/v1/query?query=${encodeURIComponent(query)}`)
    const { result } = answer.json().data as { result: { metric: Record<string, string>; value: [number, string] }[] }
    return Object.fromEntries(result.map(({ metric, value }) => [metric.tenant, Number(value[1])]))
  }
  const becomes = async (name: string, is: (value: number | undefined) => boolean): Promise<void> => {
    let value: number | undefined
    for (const end = Date.now() + WAIT_MS; Date.now() < end && !is(value); await pause(30)) value = (await ask(`agent_plane_${name}`)).default
    t.ok(is(value), `${name} is ${value}`)
  }
  await becomes('runs_running', (value) => value === 0)
  const names = [
    ...STATUSES.map((status) => `runs_${status}`),
    ...CONDITIONS.map((condition) => `attention_${condition.replaceAll('.', '_')}`),
    ...[...RESULTS, 'seconds'].map((name) => `effects_${name}`),
  ]
  for (const name of names) t.same(await ask(`agent_plane_${name}`), { default: 0, acme: 0 }, name)

  await plane.run('work', null)
  await plane.run('work', null)
  await becomes('effects_done', (value) => value === 2)
  await becomes('effects_seconds', (value = 0) => value >= 0.05 && value < WAIT_MS)
  await plane.run('doubt', null)
  await becomes('runs_quarantined', (value) => value === 1)
  await becomes('attention_run_quarantined', (value) => value === 1)
  await becomes('effects_in_doubt', (value) => value === 1)
  await plane.run('fails', null)
  await becomes('runs_failed', (value) => value === 1)
  await becomes('effects_failed', (value) => value === 1)
  const { run } = await plane.plane.run({
    capability: 'late',
    input: null,
    actor: 'ann',
    case: { kind: 'claim', correlation: [{ namespace: 'claim', value: '7' }] },
  })
  t.equal(await plane.plane.settled(run), 'suspended')
  await becomes('runs_suspended', (value) => value === 1)
  await becomes('attention_obligation_breached', (value) => value === 1)
  await plane.plane.cancel(run, { actor: 'ann', basis: 'asserted' }, 'no need')
  await becomes('runs_suspended', (value) => value === 0)
  t.same(await ask('agent_plane_runs_quarantined'), { default: 1, acme: 0 }, 'tenants are apart')
  const metrics = (await plane.node.inject('/metrics')).body
  t.match(metrics, /svc_agent_plane_effects_total\{result="done"\} 2/)
  t.match(metrics, /svc_agent_plane_effect_seconds_total 0\.\d+/)
  t.match(metrics, /svc_agent_plane_attention\{condition="obligation\.breached"\} 1/)
  t.match(metrics, /svc_agent_plane_runs\{status="quarantined"\} 1/)
})
