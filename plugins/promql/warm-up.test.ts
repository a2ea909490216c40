/** The warm-up: its queries are ones that the server answers, and they end when they are told to. */

import type { Reader } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import lineProtocol from '../line_protocol/index.ts'
import plugin from './index.ts'
import warmUp from './warm-up.ts'

const io = (signal: AbortSignal, bytes: Uint8Array[] = []) => ({ signal, emit: async (piece: Uint8Array) => void bytes.push(piece) })
const NOTHING = { schema: () => [] } as unknown as Reader

t.test('without points its queries are of made-up ones, and answered with some', async (t) => {
  for (let query = 0; query < 54; query++) {
    const bytes: Uint8Array[] = []
    t.same(await warmUp(NOTHING, { query, now: 0 }, io(new AbortController().signal, bytes)), { stored: false })
    t.match(Buffer.concat(bytes).toString(), /^\{"status":"success".*"metric"/, `query ${query}`)
  }
})

t.test('a server that shuts down ends it', async (t) => {
  await t.rejects(warmUp(NOTHING, { query: 1, now: 0 }, io(AbortSignal.abort())))
})

t.test('with points its queries are of a series of the storage', async (t) => {
  const node = await boot({ plugins: [lineProtocol, plugin], storage: 'embedded', config: { promql: { warm_up_queries: 0 } } })
  t.teardown(() => node.stop())
  const now = Date.now()
  const written = await node.inject({
    method: 'POST',
    url: '/write',
    payload: `m.1,a"b=x\\y"é,host=ü v=1 ${now - 1000}000000\nm.1,host=other v=7 ${now - 1000}000000`,
  })
  t.equal(written.statusCode, 204)
  for (let query = 0; query < 18; query++) {
    const job = node.storage.run(new URL('warm-up.ts', import.meta.url), { query, now })
    let text = ''
    for await (const bytes of job.output) text += Buffer.from(bytes).toString()
    t.same(await job.result, { stored: true })
    t.match(text, /^\{"status":"success"/, `query ${query}`)
    if (query === 0) t.match(text, '"1"')
  }
})

t.test('a server runs it beside what it is asked', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { promql: { warm_up_queries: 9, warm_up_after_secs: 0 } } })
  t.teardown(() => node.stop())
  const answer = await node.inject('/api/v1/query?query=1%2B1&time=5')
  t.same(answer.json(), { status: 'success', data: { resultType: 'scalar', result: [5, '2'] } })
})
