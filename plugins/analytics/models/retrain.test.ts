/** Trainings that are asked for, or done by another node, while one is under way. */
import { definePlugin, MODEL_KINDS, type ModelKinds } from 'svcdb'
import type { TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import type { KeptModel } from './record.ts'
import { begin, call, lines, MINUTE, MODELS, model, node, write } from './testing.ts'
import { BEGUN } from './testing-slow.ts'

const kinds = definePlugin({
  id: 'brings_kinds',
  summary: 'Registers a kind for the test',
  stability: 'experimental',
  requires: [MODEL_KINDS],
  setup(svc) {
    svc.use<ModelKinds>(MODEL_KINDS).register('slow', new URL('./testing-slow.ts', import.meta.url))
  },
})
const shown = async (one: TestNode) => (await call(one, 'GET', `${MODELS}/cpu/load`)).body
const ready = (one: TestNode) =>
  lookUntil(
    () => shown(one),
    ({ status }) => status === 'ready',
  )
const retrain = async (one: TestNode): Promise<number> => (await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })).status

/** A node with a model whose training takes long. */
async function slowModel(t: Test): Promise<TestNode> {
  const one = await node(t, { plugins: [kinds] })
  await write(one, lines(0, 60))
  t.equal((await call(one, 'POST', MODELS, model({ model_type: 'slow', params: {} }))).status, 201)
  return one
}

/** Resolves when the next fit has read its samples. */
function begun(t: Test): Promise<void> {
  const channel = new BroadcastChannel(BEGUN)
  t.teardown(() => channel.close())
  return new Promise((resolve) => {
    channel.onmessage = () => resolve()
  })
}

t.test('a training that is asked for while one is under way is done after it', async (t) => {
  const one = await slowModel(t)
  const first = begun(t)
  t.equal(await retrain(one), 202)
  await first
  await write(one, lines(60, 80))
  t.equal(await retrain(one), 202)
  const { versions, training_data_end, last_error } = await ready(one)
  t.same(
    versions.map(({ training_points }: { training_points: number }) => training_points),
    [60, 60, 80],
  )
  t.equal(last_error, null)
  t.equal(training_data_end, Number(begin + 59n * MINUTE), 'of the Champion')
})

t.test('a training that another node has done meanwhile makes no version', async (t) => {
  const one = await slowModel(t)
  const first = begun(t)
  t.equal(await retrain(one), 202)
  await first
  const state = one.storage.state('analytics')
  const [{ key, value }] = await state.list<KeptModel>({ prefix: 'model/' })
  const { retrain: _, ...done } = value
  await state.transaction((tx) => tx.put(key, done))
  t.equal((await ready(one)).versions.length, 1)
})
