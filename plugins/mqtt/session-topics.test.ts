/** Topics that are kept, wherever a node ends between two steps. */
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { SessionTopics } from './session-topics.ts'

t.test('a topic is known until its subscription is ended, however often a node ends before', async (t) => {
  const state = mapState()
  const started = (topics: string[]) => new SessionTopics(state, 'plant', 'broker:1883/one').begin(topics)
  t.same(await started(['a', 'b']), [])
  t.same(await started(['a']), ['b'])
  t.same(await started(['a', 'c']), ['b'], 'it was not said to be ended')
  t.same(await started(['a']), ['c', 'b'], 'one that came later is known as well')
  const session = new SessionTopics(state, 'plant', 'broker:1883/one')
  await session.begin(['a'])
  await session.keep(['a'])
  t.same(await started(['a']), [])
})

t.test('each connector has its own', async (t) => {
  const state = mapState()
  const started = (connector: string, topics: string[]) => new SessionTopics(state, connector, `broker:1883/${connector}`).begin(topics)
  await started('one', ['a', 'b'])
  await started('two', ['c'])
  t.same(await started('one', ['a']), ['b'])
  t.same(await started('two', ['c']), [])
})
