import t from 'tap'
import { SvcError } from './lib/errors/index.ts'
import { Lifecycle, type Step, type TimeLimits } from './lifecycle.ts'
import { Logs } from './log.ts'

const log = new Logs({ level: 'error', format: 'json', destination: { write() {} } }).root

function limits(ms = 1000): TimeLimits {
  const limit = { ms, setting: 'server.some_timeout_secs' }
  return { setup: limit, start: limit, ready: limit, drain: limit, stop: limit }
}

function recorder() {
  const seen: string[] = []
  const step = (name: string, run: () => void | Promise<void> = () => {}): Step => ({
    phase: 'start',
    name,
    run: () => {
      seen.push(`start ${name}`)
      return run()
    },
    drain: () => void seen.push(`drain ${name}`),
    stop: () => void seen.push(`stop ${name}`),
  })
  return { seen, step }
}

t.test('up in order, all drains before the first stop, both in reverse', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(), log)
  await lifecycle.up([step('a')])
  await lifecycle.up([step('b'), step('c')])
  t.same(await lifecycle.down(), [])
  t.same(seen, ['start a', 'start b', 'start c', 'drain c', 'drain b', 'drain a', 'stop c', 'stop b', 'stop a'])
})

t.test('down twice stops once', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(), log)
  await lifecycle.up([step('a')])
  await Promise.all([lifecycle.down(), lifecycle.down()])
  await lifecycle.down()
  t.equal(seen.filter((s) => s === 'stop a').length, 1)
})

t.test('a failing step is named, keeps its code, and what was begun is undone', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(), log)
  const fail = () => {
    throw new SvcError('IO_ERROR', 'the port is taken')
  }
  await t.rejects(lifecycle.up([step('a'), step('plugin "b"', fail), step('c')]), { code: 'IO_ERROR', message: 'cannot start plugin "b": the port is taken' })
  t.same(seen, ['start a', 'start plugin "b"', 'drain plugin "b"', 'drain a', 'stop plugin "b"', 'stop a'])
})

t.test('a late step is named with the setting to raise', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(20), log)
  const never = () => new Promise<void>(() => {})
  await t.rejects(
    lifecycle.up([step('plugin "slow"', never), step('c')]),
    /cannot start plugin "slow": it took longer than 0.02 s; .*raise server.some_timeout_secs/,
  )
  t.notOk(seen.includes('start c'))
  t.ok(seen.includes('stop plugin "slow"'))
})

t.test('a failure on the way down is reported and does not keep the rest from stopping', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(20), log)
  const bad: Step = { phase: 'start', name: 'bad', run() {}, stop: () => Promise.reject(new Error('stuck')) }
  const hung: Step = { phase: 'start', name: 'hung', run() {}, drain: () => new Promise<void>(() => {}) }
  await lifecycle.up([step('a'), bad, hung])
  t.match(await lifecycle.down(), [{ message: /cannot drain hung: it took longer/ }, { message: 'cannot stop bad: stuck' }])
  t.equal(seen.at(-1), 'stop a')
})

t.test('a stop during the start waits for the step under way and begins no other', async (t) => {
  const { seen, step } = recorder()
  const lifecycle = new Lifecycle(limits(), log)
  let finish = () => {}
  const up = lifecycle.up([step('a', () => new Promise<void>((resolve) => (finish = resolve))), step('b')])
  await new Promise((resolve) => setTimeout(resolve, 10))
  const down = lifecycle.down()
  finish()
  await Promise.all([up, down])
  t.same(seen, ['start a', 'drain a', 'stop a'])
})
