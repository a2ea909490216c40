import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock, Plugin, SignalSink } from 'svcdb'
import { SIGNAL_SINK } from 'svcdb'
import { AGENT_PLANES, type AgentPlanes, defineAgent, defineSkill, type Json, type OperatedPlane, type Skill } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { Type } from 'svcdb/lib/schema'
import { loadEngine, ManualClock, run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { handOut, type PlaneNode, start } from '../testing/node.ts'

const HOUR = 3_600_000

function taking(seen: Json[]) {
  return defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'ops', version: '1' },
      spec: { capabilities: { provides: ['ops.take'] }, budgets: {} },
    },
    skills: (skill) => [
      skill({
        capability: 'ops.take',
        summary: 'Of a test',
        input: Type.Object({}),
        output: Type.Null(),
        async invoke(ctx, input) {
          await ctx.effect({ kind: 'see', args: input as Json, mutates: false }, async () => seen.push(input as Json))
          return null
        },
      }),
    ],
  })
}

t.test('a signal of a trigger begins a run, once, with the signal as its input', async (t) => {
  const seen: Json[] = []
  const handed = handOut<SignalSink>(SIGNAL_SINK)
  const on_signal = [
    { trigger: 'disk_full', capability: 'ops.take', case: { kind: 'disk', keys: [{ namespace: 'host', tag: 'host' }] } },
    { trigger: 'disk_full', capability: 'ops.take', case: { kind: 'disk', keys: [{ namespace: 'rack', tag: 'rack' }] } },
    { trigger: 'other', capability: 'ops.missing' },
  ]
  const { node } = await start(t, [], {
    agents: [taking(seen)],
    plugins: ['triggers', 'line_protocol', handed.plugin],
    config: { agent_plane: { sweep_interval_secs: 0.1, on_signal }, triggers: {} },
  })
  const query = "CREATE TRIGGER disk_full ON disk WHEN used > 90 COOLDOWN INTERVAL '0s'"
  const made = await node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query } })
  t.match(made.statusCode, /^20/, made.body)
  const wrote = await node.inject({
    method: 'POST',
    url: '/write',
    headers: { 'content-type': 'text/plain' },
    payload: 'disk,host=a used=95\ndisk,host=b used=20',
  })
  t.equal(wrote.statusCode, 204)
  await until('the run has begun', () => seen.length > 0)
  t.match(seen, [{ trigger_name: 'disk_full', measurement: 'disk', tags: { host: 'a' }, value: 95 }])
  const again = seen[0] as never
  await handed.service().take('default', [again, { ...(again as object), trigger_name: 'other' } as never])
  await handed.service().take('default', [{ ...(again as object), event_id: 'another' } as never])
  await until('another signal begins another run', () => seen.length > 1)
  t.equal(seen.length, 2, 'the same one does not, and none begins whose tag the signal has not')
  const cases = await node.storage.state('agent_plane').list<{ kind: string; correlation: object[] }>({ prefix: 'case/' })
  t.match(cases, [{ value: { kind: 'disk', correlation: [{ namespace: 'host', value: 'a' }] } }], 'both are in the case of the host')
})

t.test('an event that no run waits for begins runs, once', async (t) => {
  const seen: Json[] = []
  const hear = defineSkill({
    capability: 'hear',
    summary: 'Of a test',
    input: Type.Null(),
    output: Type.Any(),
    invoke: async (ctx) => (await ctx.awaitEvent({ kind: 'order', correlation: [{ namespace: 'no', value: '1' }], withinMs: 60_000 })).payload,
  })
  const on_event = [
    { kind: 'order', capability: 'ops.take' },
    { kind: 'order', capability: 'ops.missing' },
    { kind: 'order', capability: 'ops.take', tenant: 'acme' },
    { kind: 'never', capability: 'ops.missing' },
  ]
  const { plane, node, run, show } = await start(t, [hear], {
    agents: [taking(seen)],
    config: { agent_plane: { sweep_interval_secs: 0.1, event_grace_secs: 1, on_event, tenants: ['acme'] } },
  })
  const order = { id: '1', source: 'shop', kind: 'order', payload: { cents: 5 } }
  const { run: begun = '', delivery } = await plane.deliver(order)
  t.equal(delivery, 'buffered', 'no run has waited')
  t.equal(await plane.settled(begun), 'succeeded')
  t.same(seen, [{ ...order, correlation: [] }], 'of this tenant alone, and as its input')
  t.same(await plane.deliver(order), { delivery: 'duplicate', run: begun })
  const records = await node.storage.state('agent_plane').list<{ raw: string }>({ prefix: `record/${begun}/` })
  t.match(JSON.parse(records[0].value.raw), { admitted_by: 'svc:event/order', input_label: { provenance: ['event:shop'], trust: 'untrusted' } })
  const { run: waits } = await run('hear', null)
  const correlation = [{ namespace: 'no', value: '1' }]
  t.same(await plane.deliver({ ...order, id: '2', correlation }), { delivery: 'resumed', run: waits }, 'who waits has it')
  t.equal(await plane.settled(waits), 'succeeded')
  t.match((await show(waits)).body, { output: { cents: 5 } })
  t.same(await plane.deliver({ ...order, id: '3', kind: 'never' }), { delivery: 'buffered' }, 'what may not begin is kept')
  t.same(await plane.deliver({ ...order, id: '4', kind: 'other' }), { delivery: 'buffered' })
  const dead = async () => (await node.storage.state('agent_plane').list<{ id: string }>({ prefix: 'dead/' })).map(({ value }) => value.id).sort()
  const end = Date.now() + 60_000
  while ((await dead()).length < 2 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50))
  t.same(await dead(), ['3', '4'], 'the event that has begun a run is no dead letter')
  t.equal(seen.length, 1)
})

t.test('a schedule begins runs, and agents come out of files', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-agents-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'agents.ts')
  await writeFile(
    file,
    `import { defineAgent } from ${JSON.stringify(import.meta.resolve('svcdb/agents'))}
    const manifest = { apiVersion: 'svc/v1alpha1', kind: 'Agent', metadata: { name: 'tick', version: '1' }, spec: { capabilities: { provides: ['tick.do'] }, budgets: {} } }
    const any = { type: 'object' }
    export default defineAgent({ manifest, skills: (skill) => [skill({ capability: 'tick.do', summary: 'x', input: any, output: any, invoke: async (_, input) => input })] })`,
  )
  const schedules = [{ name: 'often', every_secs: 0.1, capability: 'tick.do', input: { n: 1 } }]
  const { node, run } = await start(t, [], { config: { agent_plane: { agents: [file], schedules } } })
  t.match(await run('tick.do', { n: 2 }), { status: 'succeeded', output: { n: 2 } })
  const admitted = async () => Number(/runs_admitted_total (\d+)/.exec((await node.inject('/metrics')).body)?.[1])
  const end = Date.now() + 60_000
  while ((await admitted()) < 3 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50))
  t.ok((await admitted()) >= 3)
  await t.rejects(start(t, [], { config: { agent_plane: { agents: [join(folder, 'none.ts')] } } }), /cannot load agents of/)
  // As `npm init -y` makes it, and where nobody has installed anything.
  const other = join(folder, 'other')
  await mkdir(other)
  await writeFile(join(other, 'package.json'), '{ "type": "commonjs" }')
  for (const [name, hint] of [
    ['old.ts', /is read as CommonJS: set "type": "module" in/],
    ['alone.mts', /Cannot find package 'svcdb' .*; install svcdb in its folder or in one above/],
  ] as const) {
    await writeFile(join(other, name), "import { defineAgent } from 'svcdb/agents'\nexport default defineAgent({})")
    await t.rejects(start(t, [], { config: { agent_plane: { agents: [join(other, name)] } } }), hint)
  }
})

t.test('a schedule goes on over restarts: of a node that is started anew before its time it still begins runs', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const clock = new ManualClock(Date.UTC(2026, 10, 23, 12))
  const began = clock.now()
  const begun: number[] = []
  const drilled = new Set<number>()
  const report = defineSkill({
    capability: 'report',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Null(),
    invoke: async () => {
      begun.push(clock.now())
      return null
    },
  })
  const config = {
    agent_plane: { sweep_interval_secs: 3600, drill_every_secs: 86_400, schedules: [{ name: 'daily', every_secs: 86_400, capability: 'report' }] },
  }
  for (let starts = 0; starts < 7; starts++) {
    const { node } = await start(t, [report], { config, storage, clock })
    await clock.advance(15 * HOUR)
    drilled.add(((await node.storage.state('agent_plane').get<{ at: number }>('drill')) as { at: number }).at)
    t.same(await node.stop(), [])
  }
  t.same(
    begun.map((at) => Math.round((at - began) / HOUR)),
    [24, 48, 72, 96],
    'a day after the first start, and each day from then on',
  )
  t.ok(drilled.size >= 4, `${drilled.size} drills`)
})

/** A wall clock that may be wrong by so much. */
function wrongClock(real: ManualClock): Clock & { by: number } {
  const nowNanos = () => real.nowNanos() + BigInt(clock.by) * 1_000_000n
  const clock = { by: 0, now: () => real.now() + clock.by, nowNanos, monotonic: real.monotonic, after: real.after }
  return clock
}

const counted = (capability: string, counts: Record<string, number>) =>
  defineSkill({
    capability,
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Null(),
    async invoke() {
      counts[capability]++
      return null
    },
  })

t.test('a schedule goes on where the clock was set back, also over a restart', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const real = new ManualClock(Date.UTC(2026, 10, 23, 12))
  const clock = wrongClock(real)
  const schedules = [
    { name: 'seldom', every_secs: 600, capability: 'seldom' },
    { name: 'often', every_secs: 20, capability: 'often' },
  ]
  const options = { config: { agent_plane: { sweep_interval_secs: 3600, schedules } }, storage, clock }
  const begun = { seldom: 0, often: 0 }
  const skills = [counted('seldom', begun), counted('often', begun)]
  const before = await start(t, skills, options)
  await real.advance(2 * HOUR)
  t.same(begun, { seldom: 12, often: 360 })
  clock.by = -HOUR
  await real.advance(HOUR / 3)
  t.same(begun, { seldom: 14, often: 420 }, 'in the hour that the clock tells again')
  t.same(await before.node.stop(), [])
  clock.by = -3 * HOUR
  await start(t, skills, options)
  await real.advance(HOUR / 3)
  t.same(begun, { seldom: 16, often: 480 }, 'by another process')
  clock.by = 0
  await real.advance(HOUR / 3)
  t.same(begun, { seldom: 18, often: 540 })
})

t.test('a clock that was set back by one time of a schedule has a later start leave none out', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const real = new ManualClock(Date.UTC(2026, 10, 23, 12, 30))
  const clock = wrongClock(real)
  const config = { agent_plane: { sweep_interval_secs: 3600, schedules: [{ name: 'hourly', every_secs: 3600, capability: 'hourly' }] } }
  const begun = { hourly: 0 }
  const before = await start(t, [counted('hourly', begun)], { config, storage, clock })
  await real.advance(2 * HOUR)
  clock.by = -HOUR
  await real.advance(HOUR)
  t.equal(begun.hourly, 3)
  t.same(await before.node.stop(), [])
  await start(t, [counted('hourly', begun)], { config, storage, clock })
  await real.advance(HOUR)
  t.equal(begun.hourly, 4, 'that of the hour after')
  clock.by = 0
  await real.advance(2 * HOUR)
  t.equal(begun.hourly, 6)
})

t.test('a daily schedule comes after a clock that was ahead, on a node that is started anew before its time', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const real = new ManualClock(Date.UTC(2026, 10, 23, 12))
  const clock = wrongClock(real)
  const config = { agent_plane: { sweep_interval_secs: 3600, schedules: [{ name: 'daily', every_secs: 86_400, capability: 'daily' }] } }
  const counts = { daily: 0 }
  const begun: number[] = []
  clock.by = 365 * 24 * HOUR
  for (let starts = 0; starts < 5; starts++) {
    const { node } = await start(t, [counted('daily', counts)], { config, storage, clock })
    await real.advance(15 * HOUR)
    begun.push(counts.daily)
    t.same(await node.stop(), [])
    clock.by = 0
  }
  t.same(begun, [0, 0, 1, 1, 2])
})

for (const nth of [1, 2])
  for (const committed of [false, true])
    t.test(
      `a schedule whose transaction ${nth} fails, ${committed ? 'after' : 'before'} its commit, is tried again soon, and begins its run once`,
      async (t) => {
        const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
        const stateOf = storage.state?.bind(storage) as NonNullable<typeof storage.state>
        let left = Number.POSITIVE_INFINITY
        storage.state = (owner) => {
          const state = stateOf(owner)
          const transaction: typeof state.transaction = async (body) => {
            const fails = owner === 'agent_plane' && --left === 0
            if (fails && !committed) throw new SvcError('OVERLOADED', 'the state store is out of reach')
            const value = await state.transaction(body)
            if (fails) throw new SvcError('OVERLOADED', 'whether it was stored is not known')
            return value
          }
          return Object.assign(Object.create(state), { transaction })
        }
        const clock = new ManualClock(Date.UTC(2026, 10, 23, 23, 59, 30))
        const begun = new Set<string>()
        const daily = defineSkill({
          capability: 'daily',
          summary: 'Of a test',
          input: Type.Any(),
          output: Type.Null(),
          async invoke({ run }) {
            begun.add(run)
            return null
          },
        })
        const config = { agent_plane: { sweep_interval_secs: 40, schedules: [{ name: 'daily', every_secs: 86_400, capability: 'daily' }] } }
        await start(t, [daily], { config, storage, clock })
        await clock.advance(24 * HOUR - 1)
        left = nth
        await clock.advance(2 * 60_000)
        t.ok(left <= 0, 'it has failed')
        t.equal(begun.size, 1)
        await clock.advance(23 * HOUR)
        t.equal(begun.size, 1)
        await clock.advance(HOUR + 2 * 60_000)
        t.equal(begun.size, 2, 'that of the next day')
      },
    )

t.test('what begins runs of a tenant that is not there is refused at the start', async (t) => {
  for (const [rules, message] of [
    [{ on_signal: [{ trigger: 'full', capability: 'x', tenant: 'gone' }] }, 'cannot use agent_plane.on_signal of trigger "full": there is no tenant "gone"'],
    [{ on_event: [{ kind: 'order', capability: 'x', tenant: 'gone' }] }, 'cannot use agent_plane.on_event of kind "order": there is no tenant "gone"'],
    [
      { schedules: [{ name: 'daily', every_secs: 60, capability: 'x', tenant: 'gone' }] },
      'cannot use agent_plane.schedules "daily": there is no tenant "gone"',
    ],
  ] as const)
    await t.rejects(start(t, [], { config: { agent_plane: { tenants: ['here'], ...rules } } }), new RegExp(`${message}; name it in agent_plane.tenants`))
})

t.test('signals that wait are not lost by a start without their skill, as long as a rule wants it', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const counts = { count: 0 }
  const said: string[] = []
  const rules = { sweep_interval_secs: 0.05, on_signal: [{ trigger: 'full', capability: 'count' }] }
  const startWith = (skills: Skill[], agent_plane: object, plugins: Plugin[] = []) =>
    start(t, skills, { config: { agent_plane }, storage, plugins, log: (line) => void said.push(line) })
  const waiting = async ({ node }: PlaneNode) => (await node.storage.state('agent_plane').list({ prefix: 'signals/of/' })).length
  const swept = async ({ node }: PlaneNode) => {
    const runs = async () => Number(/^svc_schedule_runs_total\{.*"sweep".*"done".* (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1] ?? 0)
    for (const after = (await runs()) + 2; (await runs()) < after; ) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const [sink, planes] = [handOut<SignalSink>(SIGNAL_SINK), handOut<AgentPlanes>(AGENT_PLANES)]
  const first = await startWith([counted('count', counts)], { ...rules, sweep_interval_secs: 3600 }, [sink.plugin, planes.plugin])
  const { halts } = planes.service().find('default') as OperatedPlane
  await halts?.place('tenant', 'a test', { actor: 'ann', basis: 'asserted' })
  for (const event_id of ['1', '2']) await sink.service().take('default', [{ event_id, trigger_name: 'full', tags: {}, value: 1 } as never])
  await halts?.lift('tenant', { actor: 'ann', basis: 'asserted' })
  t.same(await first.node.stop(), [])
  const without = await startWith([], rules)
  await swept(without)
  t.equal(await waiting(without), 2)
  t.match(said.filter((line) => line.includes('nothing here has their capability')).join(), /"level":"warn".*"capability":"count"/)
  t.same(await without.node.stop(), [])
  const again = await startWith([counted('count', counts)], rules)
  await until('they have begun', () => counts.count === 2)
  await swept(again)
  t.equal(await waiting(again), 0)
})

t.test('svc plane validate and digest look at the manifest in a file', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-manifest-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { manifest, digest } = taking([])
  await writeFile(join(folder, 'good.json'), JSON.stringify(manifest, undefined, 2))
  await writeFile(join(folder, 'bad.json'), JSON.stringify({ ...manifest, metadata: {} }))
  await writeFile(join(folder, 'no.json'), '{')
  const svc = async (verb: string, file: string) => {
    let [out, err] = ['', '']
    const io = { env: {}, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    return { code: await runCli(['plane', verb, join(folder, file)], io as never), out, err }
  }
  t.match(await svc('validate', 'good.json'), { code: 0, out: /agent "ops", version 1, digest [0-9a-f]{64}/, err: '' })
  t.match(await svc('digest', 'good.json'), { code: 0, out: `${digest}\n` })
  t.match(await svc('validate', 'bad.json'), { code: 1, out: '', err: /bad\.json: \/metadata: must have required properties name, version/ })
  t.match(await svc('digest', 'no.json'), { code: 1, err: /it is not JSON/ })
  t.match(await svc('digest', 'none.json'), { code: 4, err: /cannot read manifest/ })
})
