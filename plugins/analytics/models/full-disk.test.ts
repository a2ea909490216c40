/** A disk without room for what models come to: what was asked for is done when there is room again, and the log is not filled meanwhile. */
import type { StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, loadEngine, MetricsRegistry, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { call, lines, MODELS, model, write } from './testing.ts'

const QUIET = { debug() {}, info() {}, warn() {}, error() {} }
const RETRAIN = '/api/v1/admin/analytics/retrain'

interface Disk {
  /** Keys that nothing can be written to. */
  full: RegExp | undefined
}

async function nodeOn(t: Test, disk: Disk, analytics: object) {
  const { createEngine } = await loadEngine('embedded', '.')
  const metrics = new MetricsRegistry()
  t.teardown(() => metrics.close())
  const config = { data_dir: temporaryFolder(t), warm_up_ms: 0 }
  const engine = createEngine({ config, log: QUIET, metrics: metrics.child('storage'), now: Date.now })
  const stateOf = engine.state.bind(engine)
  engine.state = (owner: string): StateStore => {
    const store = stateOf(owner)
    const check = (key: string): void => {
      if (owner === 'analytics' && disk.full?.test(key)) throw new SvcError('STORAGE_FULL', 'cannot write the catalog: no space left on the data volume')
    }
    return {
      get: (key) => store.get(key),
      list: (range) => store.list(range),
      transaction: (body) =>
        store.transaction((tx) =>
          body({
            get: (key) => tx.get(key),
            list: (range) => tx.list(range),
            put(key, value) {
              check(key)
              tx.put(key, value)
            },
            delete: (key) => tx.delete(key),
          }),
        ),
    }
  }
  const log: string[] = []
  const one = await boot({
    plugins: ['line_protocol', 'analytics'],
    storage: engine,
    config: { analytics: { watch_interval_secs: 1, ...analytics } },
    log: (text) => log.push(text),
  })
  t.teardown(() => one.stop())
  const failures = async (): Promise<number> => Number(/^svc_model_failures_total (\d+)/m.exec((await one.inject('/metrics')).body)?.[1] ?? 0)
  return { one, log, failures }
}

t.test('a training that was asked for, and for whose result there is no room, is done when there is', async (t) => {
  const disk: Disk = { full: undefined }
  const { one, failures } = await nodeOn(t, disk, { training_timeout_secs: 4 })
  await write(one, lines(0, 60))
  t.match(await call(one, 'POST', MODELS, model()), { status: 201 })
  // The record is small, and fits.
  disk.full = /^state\//
  await write(one, lines(60, 70))
  t.match(await call(one, 'POST', RETRAIN, { measurement: 'cpu' }), { status: 202, body: { accepted: true } })
  await lookUntil(failures, (count) => count > 0)
  const shown = async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body
  t.match(
    await lookUntil(shown, ({ last_error }) => last_error !== null),
    { status: 'training', last_error: /no space left/, versions: [{ version: 1 }] },
    'it is told',
  )
  disk.full = undefined
  const done = await lookUntil(shown, ({ versions }) => versions.length === 2)
  t.match(done, { status: 'ready', last_error: null, versions: [{ version: 1 }, { version: 2, training_points: 70 }] })
})

t.test('a model whose record cannot be written is logged once', async (t) => {
  const disk: Disk = { full: undefined }
  const { one, log, failures } = await nodeOn(t, disk, {})
  await write(one, lines(0, 60))
  t.match(await call(one, 'POST', MODELS, model()), { status: 201 })
  const said = () => log.join('').match(/a model cannot be kept up to date|cannot keep what went wrong with a model/g)?.length
  for (const round of [1, 2]) {
    disk.full = /./
    await write(one, lines(50 + round * 10, 60 + round * 10))
    const before = await failures()
    await lookUntil(failures, (count) => count >= before + 3)
    t.equal(said(), 2 * round)
    disk.full = undefined
    await lookUntil(
      async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
      ({ versions }) => versions[0].after?.points === 10 * round,
    )
  }
})
