/**
 * Random writes, late and twice, deletes, drops, changes of triggers and restarts; what fires is compared with a plain model: every row that was written while a
 * trigger was enabled is judged once, in the order of the writes. SVC_SEED, SVC_STEPS.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { resolveConfig, SvcNode, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { asked, type TriggerNode } from './testing.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const steps = Number(process.env.SVC_STEPS ?? 120)
const BASE = BigInt(Math.floor(Date.now() / 1000) - 1500) * 1_000_000_000n
/** Times that a trigger remembers of a series beyond doubt. */
const REMEMBERED = 32

interface Point {
  measurement: string
  host: string
  zone: string | undefined
  a: number | undefined
  n: number | undefined
  /** Seconds after BASE. */
  time: number
}

interface ModelTrigger {
  name: string
  measurement: string
  holds(point: Point): boolean
  cooldown: number
  enabled: boolean
  /** By series. */
  fired: Map<string, number[]>
}

/** A node whose data stays. */
async function open(directory: string, storage: string): Promise<TriggerNode & { stop(): Promise<void> }> {
  const tree = { plugins: ['line_protocol', 'native', 'triggers'], triggers: {}, server: { http_addr: '127.0.0.1:0', log_level: 'error' } }
  const overrides = new Map([
    ['database.engine', { text: storage, from: 'the test' }],
    ...(storage === 'embedded'
      ? ([
          ['database.data_dir', { text: directory, from: 'the test' }],
          ['database.warm_up_ms', { text: '0', from: 'the test' }],
        ] as [string, { text: string; from: string }][])
      : []),
  ])
  const node = new SvcNode(await resolveConfig({ tree, file: 'the test', folder: process.cwd(), overrides }))
  await node.setup()
  await node.start()
  const own = asked({ inject: (request: string) => node.app.inject(request) } as unknown as TestNode)
  return {
    ...own,
    async stop() {
      const failures = await node.stop()
      if (failures.length > 0) throw failures[0]
    },
  }
}

function condition(random: () => number): { text: string; holds(point: Point): boolean } {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const field = pick(['a', 'n'] as const)
  const limit = Math.floor(random() * 100)
  const up = random() < 0.5
  const one = { text: `${field} ${up ? '>' : '<='} ${limit}`, holds: (p: Point) => p[field] !== undefined && (up ? p[field] > limit : p[field] <= limit) }
  const shape = random()
  if (shape < 0.4) return one
  const host = pick(['h0', 'h1', 'h2'])
  if (shape < 0.6) return { text: `host = '${host}' AND ${one.text}`, holds: (p) => p.host === host && one.holds(p) }
  if (shape < 0.8)
    return { text: `zone <> 'z0' AND (${one.text} OR n = 50)`, holds: (p) => p.zone !== undefined && p.zone !== 'z0' && (one.holds(p) || p.n === 50) }
  return { text: `${one.text} OR host = '${host}'`, holds: (p) => one.holds(p) || p.host === host }
}

function judge(trigger: ModelTrigger, point: Point): boolean {
  if (!trigger.enabled || trigger.measurement !== point.measurement || !trigger.holds(point)) return false
  const series = `${point.host} ${point.zone}`
  const fired = trigger.fired.get(series) ?? []
  // Without a cooldown each time is remembered by itself, and only so many.
  const floor = trigger.cooldown === 0 && fired.length > REMEMBERED ? fired.toSorted((a, b) => b - a)[REMEMBERED] : -1
  if (point.time <= floor || fired.some((time) => time === point.time || Math.abs(time - point.time) < trigger.cooldown)) return false
  trigger.fired.set(series, [...fired, point.time])
  return true
}

async function run(t: Test, storage: string): Promise<void> {
  t.comment(`seed ${seed}, ${steps} steps`)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]
  const directory = await mkdtemp(join(tmpdir(), 'svc-triggers-'))
  let node = await open(directory, storage)
  t.teardown(async () => {
    await node.stop()
    await rm(directory, { recursive: true, force: true })
  })
  const triggers = new Map<string, ModelTrigger>()
  const expected: string[] = []
  const written: Point[] = []
  let marks = 0
  let names = 0
  const must = async (query: string): Promise<void> => {
    const { status, body } = await node.run(query)
    if (status !== 200) throw new Error(`seed ${seed}: ${query}: ${JSON.stringify(body)}`)
  }
  /** Waits until all that was written is judged. */
  const barrier = async (): Promise<void> => {
    const nanos = BASE + BigInt(++marks) * 1_000_000n
    await node.write(`mark v=1 ${nanos}`)
    const time = Number(nanos)
    const until = performance.now() + 20_000
    for (;;) {
      const [last] = await node.signals('?limit=1')
      if (last?.trigger_name === 'mark' && last.timestamp === time) return
      if (performance.now() > until) throw new Error(`seed ${seed}: not judged after 20 s`)
      await new Promise((resolve) => setTimeout(resolve, 3))
    }
  }
  const write = async (points: Point[]): Promise<void> => {
    const line = ({ measurement, host, zone, a, n, time }: Point): string => {
      const fields = [...(a === undefined ? [] : [`a=${a}`]), ...(n === undefined ? [] : [`n=${n}i`])]
      return `${measurement},host=${host}${zone === undefined ? '' : `,zone=${zone}`} ${fields.join(',')} ${BASE + BigInt(time) * 1_000_000_000n}`
    }
    await node.write(points.map(line))
    for (const measurement of ['m0', 'm1', 'm2'])
      for (const point of points.filter((each) => each.measurement === measurement))
        for (const trigger of triggers.values())
          if (judge(trigger, point)) expected.push(`${trigger.name} ${point.host} ${point.zone ?? ''} ${BASE + BigInt(point.time) * 1_000_000_000n}`)
    written.push(...points)
  }
  const check = async (): Promise<void> => {
    await barrier()
    const found = (await node.signals()).filter(({ trigger_name }) => trigger_name !== 'mark')
    const actual = found.map(({ trigger_name, tags, timestamp }) => `${trigger_name} ${tags.host} ${tags.zone ?? ''} ${Math.round(timestamp / 1e9) * 1e9}`)
    const wanted = expected.map((each) => each.replace(/\d+$/, (digits) => String(Math.round(Number(digits) / 1e9) * 1e9)))
    const [extra, missing] = [actual.filter((each) => !wanted.includes(each)), wanted.filter((each) => !actual.includes(each))]
    if (actual.length !== wanted.length || extra.length > 0 || missing.length > 0)
      throw new Error(`seed ${seed}: ${actual.length} signals for ${wanted.length}; too many: ${extra.slice(0, 5)}; missing: ${missing.slice(0, 5)}`)
    if (new Set(found.map(({ event_id }) => event_id)).size !== found.length) throw new Error(`seed ${seed}: an id twice`)
  }
  await must("CREATE TRIGGER mark ON mark WHEN v = 1 COOLDOWN INTERVAL '0s'")
  for (let step = 0; step < steps; step++) {
    const what = random()
    if (what < 0.12 && triggers.size < 8) {
      const { text, holds } = condition(random)
      const trigger = { name: `t${names++}`, measurement: pick(['m0', 'm1', 'm2']), holds, cooldown: pick([0, 40, 300]), enabled: true, fired: new Map() }
      await must(`CREATE TRIGGER ${trigger.name} ON ${trigger.measurement} WHEN ${text} COOLDOWN INTERVAL '${trigger.cooldown}s'`)
      triggers.set(trigger.name, trigger)
    } else if (what < 0.16 && triggers.size > 0) {
      const trigger = pick([...triggers.values()])
      await barrier()
      await must(`DROP TRIGGER ${trigger.name}`)
      triggers.delete(trigger.name)
    } else if (what < 0.22 && triggers.size > 0) {
      const trigger = pick([...triggers.values()])
      await barrier()
      trigger.enabled = !trigger.enabled
      await must(`ALTER TRIGGER ${trigger.name} ${trigger.enabled ? 'ENABLE' : 'DISABLE'}`)
    } else if (what < 0.25) {
      const payload = { measurement: pick(['m0', 'm1', 'm2']), matchers: [{ tag: 'host', op: '=', value: pick(['h0', 'h1']) }] }
      await node.node.inject({ method: 'POST', url: '/api/v1/delete', payload })
    } else if (what < 0.27) {
      await node.node.inject({ method: 'DELETE', url: `/api/v1/measurements/${pick(['m0', 'm1', 'm2'])}` })
    } else if (what < 0.31 && storage === 'embedded') {
      // Some of what was written is not judged yet.
      if (random() < 0.5) await check()
      await node.stop()
      node = await open(directory, storage)
    } else if (what < 0.4 && written.length > 0) {
      await write(Array.from({ length: 1 + below(20) }, () => pick(written)))
    } else {
      const points = Array.from({ length: 1 + below(40) }, (): Point => {
        const [a, n] = [below(5) === 0 ? undefined : below(100), below(3) === 0 ? undefined : below(100)]
        const time = Math.max(0, Math.min(1400, step * 10 - below(10) * below(30)))
        return {
          measurement: pick(['m0', 'm1', 'm2']),
          host: `h${below(5)}`,
          zone: below(3) === 0 ? undefined : `z${below(2)}`,
          a: a ?? (n === undefined ? 1 : undefined),
          n,
          time,
        }
      })
      await write(points)
    }
    if (step % 20 === 19) await check()
  }
  await check()
  t.ok(expected.length > steps / 4, `${expected.length} signals as the model has them`)
}

t.setTimeout(600_000)
t.test('signals outlive their triggers, and are counted on', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-triggers-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  for (let life = 0; life < 3; life++) {
    const node = await open(directory, 'embedded')
    await node.run('CREATE TRIGGER one ON m WHEN v > 1')
    await node.write(`m v=${life + 2} ${BASE + BigInt(life)}`)
    const signals = await node.settled(life + 1)
    t.same(
      signals.map(({ value, metadata }) => [value, metadata.sequence]),
      Array.from({ length: life + 1 }, (_, i) => [i + 2, i]),
    )
    await node.run('DROP TRIGGER one')
    await node.stop()
  }
})
t.test('the memory engine', (t) => run(t, 'memory'))
t.test('the embedded engine, with restarts', (t) => run(t, 'embedded'))
