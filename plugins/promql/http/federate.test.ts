/** Federation: what a Prometheus that scrapes /federate is given, line by line. */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const NOW = Math.floor(Date.now() / 1000)

async function started(config: Record<string, Record<string, number>> = {}) {
  const node = await boot({ plugins: ['line_protocol', 'promql'], storage: 'embedded', config })
  t.teardown(() => node.stop())
  return {
    async write(...lines: string[]) {
      const { statusCode, body } = await node.inject({ method: 'POST', url: '/write?precision=s', payload: lines.join('\n') })
      if (statusCode !== 204) throw new Error(body)
    },
    async federate(selectors: string[], headers: Record<string, string> = {}) {
      const query = selectors.map((selector) => `match[]=${encodeURIComponent(selector)}`).join('&')
      const { statusCode, headers: answered, body } = await node.inject({ url: `/federate?${query}`, headers })
      return { status: statusCode, type: String(answered['content-type']), lines: body.split('\n').filter((line) => line !== ''), body }
    },
  }
}

t.test('the newest sample of each series within the lookback, with its own time, metric by metric', async (t) => {
  const { write, federate } = await started()
  await write(
    `up,job=b value=0 ${NOW - 9}`,
    `up,job=b value=1 ${NOW - 5}`,
    `up,job=a,instance=x value=1.5 ${NOW - 7}`,
    `cpu,job=a load=1000000,idle=0.25 ${NOW - 3}`,
    `old value=1 ${NOW - 400}`,
    `note text="no metric" ${NOW}`,
  )
  const { status, type, lines } = await federate(['up', '{job="a"}', 'old', 'note_text'])
  t.equal(status, 200)
  t.match(type, /^text\/plain; version=0\.0\.4; charset=utf-8/)
  t.same(lines, [
    '# TYPE cpu_idle untyped',
    `cpu_idle{job="a",instance=""} 0.25 ${NOW - 3}000`,
    '# TYPE cpu_load untyped',
    `cpu_load{job="a",instance=""} 1e+06 ${NOW - 3}000`,
    '# TYPE up untyped',
    `up{job="b",instance=""} 1 ${NOW - 5}000`,
    `up{instance="x",job="a"} 1.5 ${NOW - 7}000`,
  ])
  t.same(await federate([]), { ...(await federate(['none'])), lines: [] }, 'nothing is asked for')
  for (const wrong of ['{', '{job=~".*"}', 'up[5m]']) t.match(await federate([wrong]), { status: 400, body: /"errorType":"bad_data"/ }, wrong)
})

t.test('texts and names of any characters', async (t) => {
  const { write, federate } = await started()
  const value = 'a"b\\\\c'
  await write(`http.requests,service.name=api,path=${value} value=1 ${NOW}`)
  t.same((await federate(['{"http.requests"}'])).lines, [
    '# TYPE http_requests untyped',
    `http_requests{path="a\\"b\\\\c",service_name="api",instance=""} 1 ${NOW}000`,
  ])
  const { type, lines } = await federate(['{"http.requests"}'], { accept: 'text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1' })
  t.match(type, /escaping=allow-utf-8/)
  t.same(lines, ['# TYPE "http.requests" untyped', `{"http.requests",path="a\\"b\\\\c","service.name"="api",instance=""} 1 ${NOW}000`])
})

t.test('names that are not told apart by their underscores', async (t) => {
  const { write, federate } = await started()
  await write(`odd,a.b=1,a-b=2,a_b=3,c:d=4,1e=5 value=1 ${NOW}`, `job:odd.up:sum value=2 ${NOW}`, `1st value=3 ${NOW}`)
  t.same((await federate(['{__name__=~".*odd.*|1st"}'])).lines, [
    '# TYPE _st untyped',
    `_st{instance=""} 3 ${NOW}000`,
    '# TYPE job:odd_up:sum untyped',
    `job:odd_up:sum{instance=""} 2 ${NOW}000`,
    '# TYPE odd untyped',
    `odd{_e="5",a_b_="2",a_b__="1",a_b="3",c_d="4",instance=""} 1 ${NOW}000`,
  ])
})

t.test('an answer is whole or none: who scrapes takes a series that is left out for ended', async (t) => {
  const { write, federate } = await started({ server: { prom_series_limit: 100, prom_max_result_bytes: 65_536 } })
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  await write(...Array.from({ length: 3000 }, (_, i) => `m,i=${i} value=${random()} ${NOW}`))
  t.equal((await federate(['m{i=~"1.?.?"}'])).lines.length, 112, 'more series than other answers have')
  t.match(await federate(['m']), { status: 422, body: /prom_max_result_bytes/ })
})
