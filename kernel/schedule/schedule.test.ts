import t, { type Test } from 'tap'
import { definePlugin, type Svc } from '../plugin.ts'
import type { StateStore } from '../storage/state.ts'
import type { StorageEngine } from '../storage/storage.ts'
import { type BootOptions, boot, loadEngine, ManualClock, mapState, type TestNode } from '../testkit/index.ts'
import type { ScheduledRun, ScheduleStatus } from './schedule.ts'

const MINUTE = 60_000

async function start(t: Test, setup: (svc: Svc) => void, options: BootOptions = {}): Promise<{ node: TestNode; clock: ManualClock }> {
  const clock = (options.clock as ManualClock | undefined) ?? new ManualClock()
  const worker = definePlugin({ id: 'worker', summary: 'Works', stability: 'beta', capabilities: ['state'], setup })
  const node = await boot({ plugins: [worker], ...options, clock })
  t.teardown(() => node.stop())
  return { node, clock }
}

async function statusOf(node: TestNode, name: string): Promise<ScheduleStatus> {
  const { schedules } = (await node.inject('/api/v1/admin/schedules')).json() as { schedules: ScheduleStatus[] }
  return schedules.find((each) => each.name === name) as ScheduleStatus
}

/** Something that is done when the test says so. */
function held(): { job: () => Promise<void>; done(): void; begun: number } {
  const one = {
    begun: 0,
    done: () => {},
    job: () => {
      one.begun++
      return new Promise<void>((resolve) => {
        one.done = resolve
      })
    },
  }
  return one
}

t.test('runs come an interval apart, late by the jitter at most', async (t) => {
  const times: number[] = []
  const { clock, node } = await start(t, (svc) => {
    svc.schedule('tick', MINUTE, () => void times.push(svc.clock.monotonic()))
    svc.schedule('punctual', MINUTE, () => {}, { first: 0, jitter: 0 })
  })
  await clock.advance(100 * MINUTE)
  t.ok(times.length >= 90 && times.length <= 100, `${times.length} runs`)
  const gaps = times.map((time, i) => time - (times[i - 1] ?? 0))
  t.ok(
    gaps.every((gap) => gap >= MINUTE && gap <= 1.1 * MINUTE),
    'each within the jitter',
  )
  t.ok(new Set(gaps.map(Math.round)).size > 50, 'by chance')
  t.match(await statusOf(node, 'punctual'), { plugin: 'worker', runs: 101, failures: 0, running: false, last_success: clock.now(), elsewhere: false })
  const metrics = (await node.inject('/metrics')).body
  t.match(metrics, 'svc_schedule_runs_total{plugin="worker",schedule="punctual",result="done"} 101')
  t.match(metrics, `svc_schedule_last_success_timestamp_seconds{plugin="worker",schedule="punctual"} ${clock.now() / 1000}`)
  t.match(metrics, 'svc_schedule_run_duration_seconds_count{plugin="worker",schedule="punctual"} 101')
})

t.test('an interval that is longer than timers can wait for is kept', async (t) => {
  const DAY = 24 * 60 * MINUTE
  const times: number[] = []
  const { clock } = await start(t, (svc) => void svc.schedule('seldom', 60 * DAY, () => void times.push(svc.clock.monotonic()), { jitter: 0 }))
  const begun = clock.monotonic()
  for (let day = 0; day < 121; day++) await clock.advance(DAY)
  t.same(
    times.map((time) => (time - begun) / DAY),
    [60, 120],
  )
})

t.test('a run that takes longer than the interval is not joined by another, and the next keeps the beat', async (t) => {
  const slow = held()
  const { clock } = await start(t, (svc) => void svc.schedule('slow', MINUTE, slow.job, { jitter: 0 }))
  await clock.advance(3.5 * MINUTE)
  t.equal(slow.begun, 1)
  slow.done()
  await clock.advance(0.4 * MINUTE)
  t.equal(slow.begun, 1)
  await clock.advance(0.1 * MINUTE)
  t.equal(slow.begun, 2)
  slow.done()
})

t.test('a failure is counted, shown, logged once while it stays the same, and tried again', async (t) => {
  let broken: string | undefined = 'the disk is away'
  const lines: string[] = []
  const { clock, node } = await start(
    t,
    (svc) => {
      const job = async () => {
        if (broken !== undefined) throw new Error(broken)
      }
      svc.schedule('sync', 10 * MINUTE, job, { first: 0, retry: MINUTE, jitter: 0 })
    },
    { log: (line) => lines.push(line) },
  )
  await clock.advance(2 * MINUTE)
  t.match(await statusOf(node, 'sync'), { runs: 3, failures: 3, last_error: { time: clock.now(), error: 'the disk is away' } })
  const logged = () => lines.filter((line) => line.includes('a scheduled run failed')).length
  t.equal(logged(), 1)
  broken = 'the disk is full'
  await clock.advance(MINUTE)
  t.equal(logged(), 2)
  broken = undefined
  await clock.advance(MINUTE)
  t.match(await statusOf(node, 'sync'), { runs: 5, failures: 4, last_success: clock.now(), last_error: { error: 'the disk is full' } })
  t.equal(lines.filter((line) => line.includes('succeeds again')).length, 1)
  await clock.advance(9 * MINUTE)
  t.equal((await statusOf(node, 'sync')).runs, 5, 'the interval counts again')
  t.match((await node.inject('/metrics')).body, 'svc_schedule_runs_total{plugin="worker",schedule="sync",result="failed"} 4')
})

t.test('a node that stops aborts what runs, waits for it before the plugin drains, and begins nothing more', async (t) => {
  const order: string[] = []
  const lines: string[] = []
  const setup = (svc: Svc) => {
    const job = ({ signal }: { signal: AbortSignal }) =>
      new Promise<void>((_resolve, reject) => {
        order.push('begun')
        signal.addEventListener('abort', () => {
          order.push('aborted')
          setImmediate(() => {
            order.push('ended')
            reject(signal.reason)
          })
        })
      })
    svc.schedule('long', MINUTE, job, { first: 0 })
    svc.drain(() => void order.push('drain'))
  }
  const { clock, node } = await start(t, setup, { log: (line) => lines.push(line) })
  await clock.advance(0)
  t.same(await node.stop(), [])
  await clock.advance(10 * MINUTE)
  t.same(order, ['begun', 'aborted', 'ended', 'drain'])
  t.notOk(
    lines.some((line) => line.includes('a scheduled run failed')),
    'one that was told to end has not failed',
  )
})

t.test('a run that does not listen is left behind after its share of the shutdown, and one that cannot is not waited for', async (t) => {
  for (const detached of [false, true]) {
    const deaf = held()
    const lines: string[] = []
    const setup = (svc: Svc) => void svc.schedule('deaf', MINUTE, deaf.job, { first: 0, ...(detached ? { detached } : {}) })
    const { clock, node } = await start(t, setup, { log: (line) => lines.push(line), config: { server: { shutdown_timeout_secs: 20 } } })
    await clock.advance(0)
    t.equal(deaf.begun, 1)
    let stopped = false
    const stopping = node.stop().finally(() => {
      stopped = true
    })
    // The clock stands still for one that is not waited for.
    while (!stopped) await clock.advance(detached ? 0 : 500)
    t.same(await stopping, [])
    const said = lines.filter((line) => line.includes('the node does not wait for it any longer')).map((line) => JSON.parse(line).after_secs)
    t.same(said, detached ? [] : [3])
  }
})

t.test('runs of several plugins that do not listen have that share together', async (t) => {
  const lines: string[] = []
  const deaf = Array.from({ length: 4 }, held)
  const plugins = deaf.map(({ job }, i) =>
    definePlugin({ id: `deaf_${i}`, summary: 'Works', stability: 'beta', setup: (svc) => void svc.schedule('deaf', MINUTE, job, { first: 0 }) }),
  )
  const clock = new ManualClock()
  const node = await boot({ plugins, clock, log: (line) => lines.push(line), config: { server: { shutdown_timeout_secs: 20 } } })
  t.teardown(() => node.stop())
  await clock.advance(0)
  const began = clock.monotonic()
  let stopped = false
  const stopping = node.stop().finally(() => {
    stopped = true
  })
  while (!stopped) await clock.advance(clock.monotonic() - began < 3000 ? 500 : 0)
  t.same(await stopping, [])
  t.equal(lines.filter((line) => line.includes('the node does not wait for it any longer')).length, 4)
})

t.test('schedules come and go while the node runs', async (t) => {
  let svc: Svc | undefined
  const { clock, node } = await start(t, (given) => {
    svc = given
  })
  let runs = 0
  const one = svc?.schedule('group', MINUTE, () => void runs++, { jitter: 0 })
  await clock.advance(2 * MINUTE)
  await one?.stop()
  await clock.advance(2 * MINUTE)
  t.equal(runs, 2)
  t.equal(await statusOf(node, 'group'), undefined)
  svc?.schedule('group', MINUTE, () => {})
  t.throws(() => svc?.schedule('group', MINUTE, () => {}), /cannot schedule "group" of plugin "worker": there is one of that name already/)
  t.throws(() => svc?.schedule('Group', MINUTE, () => {}), /a name is lower case/)
  t.throws(() => svc?.schedule('never', Number.NaN, () => {}), /an interval of NaN ms is none/)
})

/** Engines as those of several processes over one state store. */
async function sharing(store: StateStore): Promise<StorageEngine> {
  const { createEngine, capabilities } = await loadEngine('memory', '.')
  const engine = createEngine({ config: {}, now: Date.now } as never)
  return Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state: () => store })
}

t.test('of several processes with one state store one does the work, and another goes on when it stops or is killed', async (t) => {
  const store = mapState()
  const clock = new ManualClock()
  const runs: Record<string, number> = { a: 0, b: 0, c: 0 }
  const local: Record<string, number> = { a: 0, b: 0, c: 0 }
  const nodes: Record<string, TestNode> = {}
  let dead = ''
  for (const name of Object.keys(runs)) {
    const setup = (svc: Svc) => {
      svc.schedule('shared', MINUTE, () => void runs[name]++)
      svc.schedule('own', MINUTE, () => void local[name]++, { local: true, jitter: 0 })
    }
    // A process that is killed reaches the store no more.
    const reached: StateStore = { ...store, transaction: (body) => (dead === name ? Promise.reject(new Error('killed')) : store.transaction(body)) }
    nodes[name] = (await start(t, setup, { clock, storage: await sharing(reached) })).node
  }
  const total = () => Object.values(runs).reduce((a, b) => a + b, 0)
  await clock.advance(100 * MINUTE)
  t.ok(total() >= 90 && total() <= 100, `${total()} runs of all`)
  const holder = Object.keys(runs).find((name) => runs[name] === total()) as string
  t.ok(holder, 'one did them all')
  t.same(local, { a: 100, b: 100, c: 100 })
  const [other] = Object.keys(runs).filter((name) => name !== holder)
  t.match(await statusOf(nodes[other], 'shared'), { runs: 0, elsewhere: true })

  await nodes[holder].stop()
  const before = total()
  await clock.advance(10 * MINUTE)
  t.ok(total() - before >= 8 && total() - before <= 10, `${total() - before} runs after a stop`)
  t.equal(runs[holder], before)

  const second = Object.keys(runs).find((name) => name !== holder && runs[name] > 0) as string
  dead = second
  const killedAt = total()
  await clock.advance(10 * MINUTE)
  const third = Object.keys(runs).find((name) => name !== holder && name !== second) as string
  t.ok(runs[third] >= 6, `${runs[third]} runs after a kill`)
  t.equal(total() - killedAt, runs[third])
})

t.test('a lease is kept through a long run, and a run whose lease is lost is aborted', async (t) => {
  const store = mapState()
  const clock = new ManualClock()
  const aborted: string[] = []
  const begun: string[] = []
  let dead = ''
  for (const name of ['a', 'b']) {
    const job = ({ signal }: { signal: AbortSignal }) =>
      new Promise<void>((resolve) => {
        begun.push(name)
        signal.addEventListener('abort', () => {
          aborted.push(name)
          resolve()
        })
      })
    const reached: StateStore = { ...store, transaction: (body) => (dead === name ? Promise.reject(new Error('away')) : store.transaction(body)) }
    await start(t, (svc) => void svc.schedule('long', MINUTE, job, { first: name === 'a' ? 0 : 1, jitter: 0 }), { clock, storage: await sharing(reached) })
  }
  await clock.advance(60 * MINUTE)
  t.same([begun, aborted], [['a'], []])
  dead = 'a'
  await clock.advance(2 * MINUTE)
  t.same([begun, aborted], [['a', 'b'], ['a']], 'the store was out of reach for longer than the lease')
})

t.test('a turn that a wrong clock has noted far ahead holds nobody up', async (t) => {
  const store = mapState()
  const clock = new ManualClock()
  const slot = { number: 7, begun: clock.now() + 1e12, done: true }
  await store.transaction((tx) => tx.put('owner/worker/shared', { generation: 1, token: 9, slot }))
  const turns: number[] = []
  await start(t, (svc) => void svc.schedule('shared', MINUTE, ({ turn }) => void turns.push(turn), { jitter: 0 }), { clock, storage: await sharing(store) })
  await clock.advance(3 * MINUTE)
  t.same(turns.slice(0, 3), [8, 9, 10])
})

t.test('turns are begun once each, an interval apart, whoever does them; one that was cut off is followed by the next at once', async (t) => {
  const store = mapState()
  const clock = new ManualClock()
  const done: { name: string; turn: number; at: number }[] = []
  const tokens = new Set<number>()
  let frozen = ''
  let stuck = false
  for (const name of ['a', 'b', 'c']) {
    const reached: StateStore = { ...store, transaction: (body) => (frozen === name ? Promise.reject(new Error('away')) : store.transaction(body)) }
    const job = async ({ turn, token, signal }: ScheduledRun) => {
      if (stuck && frozen === '') {
        frozen = name
        return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
      }
      tokens.add(token)
      done.push({ name, turn, at: clock.now() })
    }
    await start(t, (svc) => void svc.schedule('shared', MINUTE, job), { clock, storage: await sharing(reached) })
  }
  await clock.advance(20 * MINUTE)
  const before = done.length
  const [{ name: first }] = done
  t.ok(before >= 18, `${before} turns`)
  stuck = true
  while (frozen === '') await clock.advance(1000)
  stuck = false
  t.equal(frozen, first)
  const cutAt = clock.now()
  await clock.advance(20 * MINUTE)
  t.same(
    done.map(({ turn }) => turn),
    done.map((_, i) => (i < before ? i + 1 : i + 2)),
    'each once, and none but the one that was cut off is left out',
  )
  t.not(done[before].name, first)
  t.ok(done[before].at - cutAt <= 15_000, `taken over after ${done[before].at - cutAt} ms`)
  t.ok(
    done.every(({ at }, i) => i === 0 || i === before || at - done[i - 1].at >= 0.9 * MINUTE),
    'an interval apart',
  )
  t.equal(tokens.size, 2)
})

t.test('an engine whose state is its own has no leases in it', async (t) => {
  let written = 0
  let runs = 0
  const engine = await sharing(mapState(() => void written++))
  Object.assign(engine, { capabilities: new Set(['state']) })
  const { clock } = await start(t, (svc) => void svc.schedule('own', MINUTE, () => void runs++, { jitter: 0 }), { storage: engine })
  await clock.advance(3 * MINUTE)
  t.same([runs, written], [3, 0])
})
