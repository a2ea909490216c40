/** The warm-up: its queries are ones that the server answers, and they end when they are told to. */
import t from 'tap'
import { boot } from '../../kernel/testkit/index.ts'
import plugin from './index.ts'
import warmUp from './warm-up.ts'

const io = (signal: AbortSignal) => ({ signal, emit: () => Promise.reject(new Error('the warm-up has no output')) })

t.test('all of its queries are answered, over steps and at one time', async (t) => {
  await t.resolves(warmUp({} as never, { queries: 54 }, io(new AbortController().signal)))
})

t.test('a server that shuts down ends it', async (t) => {
  await t.rejects(warmUp({} as never, { queries: 54 }, io(AbortSignal.abort())))
})

t.test('a server runs it beside what it is asked', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { promql: { warm_up_queries: 9, warm_up_after_secs: 0 } } })
  t.teardown(() => node.stop())
  const answer = await node.inject('/api/v1/query?query=1%2B1&time=5')
  t.same(answer.json(), { status: 'success', data: { resultType: 'scalar', result: [5, '2'] } })
})
