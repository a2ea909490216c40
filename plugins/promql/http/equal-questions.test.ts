/** Many ask the same at the same time: each gets the whole answer, of his own namespace, with what he had written before. */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const START = 1_700_000_000
const NAMESPACES = ['one', 'two', 'three']
/** Answers beyond it are not written as text (http/output.ts). */
const SMALL_BYTES = 12 * 1024

t.test('each gets his own answer', async (t) => {
  const config = { server: { multi_tenancy: true }, database: { query_threads: 1 } }
  const node = await boot({ plugins: ['native', 'line_protocol', 'namespaces', 'promql'], storage: 'embedded', config })
  t.teardown(() => node.stop())
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const written = new Map(NAMESPACES.map((namespace) => [namespace, 0]))
  const request = async (path: string, init: RequestInit): Promise<{ statusCode: number; body: string }> => {
    const answer = await fetch(node.url + path, init)
    return { statusCode: answer.status, body: await answer.text() }
  }
  // Series n of a namespace has the value n at each step: an answer says by itself what it is of.
  const write = async (namespace: string): Promise<void> => {
    const n = written.get(namespace) as number
    const payload = Array.from({ length: 40 }, (_, i) => `m,s=${namespace}-${n} v=${n} ${START + i * 10}`).join('\n')
    const headers = { 'x-namespace': namespace }
    const { statusCode, body } = await request(`/write?precision=s`, { method: 'POST', body: payload, headers })
    if (statusCode !== 204) throw new Error(body)
    written.set(namespace, n + 1)
  }
  const wrong: string[] = []
  let large = 0
  const ask = async (namespace: string): Promise<void> => {
    const least = written.get(namespace) as number
    const range = random() < 0.5
    const time = range ? `query_range?query=m_v&start=${START}&end=${START + 390}&step=10` : `query?query=m_v&time=${START + 390}`
    const { statusCode, body } = await request(`/api/v1/${time}`, { headers: { 'x-namespace': namespace } })
    if (statusCode !== 200) return void wrong.push(body)
    if (body.length > SMALL_BYTES) large++
    const { result } = JSON.parse(body).data as { result: { metric: { s: string }; values?: unknown[]; value?: unknown }[] }
    if (result.length < least) wrong.push(`${result.length} series of ${least}`)
    for (const { metric, values } of result) {
      if (!metric.s.startsWith(`${namespace}-`)) wrong.push(`${metric.s} for ${namespace}`)
      if (range && values?.length !== 40) wrong.push(`${values?.length} steps`)
    }
  }
  for (const namespace of NAMESPACES) await write(namespace)
  for (let round = 0; round < 25; round++) {
    await Promise.all(
      Array.from({ length: 24 }, () => {
        const namespace = NAMESPACES[Math.floor(random() * NAMESPACES.length)]
        return ask(namespace)
      }),
    )
    await Promise.all(NAMESPACES.map(write))
  }
  t.same(wrong, [])
  t.ok(large > 0)
  const shared = Number(/^svc_queries_shared_total (\d+)$/m.exec((await request('/metrics', {})).body)?.[1])
  t.ok(shared > 0, `${shared} of 600 were shared`)
})
