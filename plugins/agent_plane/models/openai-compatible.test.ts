/** Against a server that speaks the protocol, and answers what the test says. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AgentManifest, defineAgent, defineTool } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'
import { start } from '../testing/node.ts'
import { retryAfter } from './openai-compatible.ts'

interface Asked {
  headers: IncomingHttpHeaders
  body: {
    model: string
    stream: boolean
    messages: { role: string; content: string; tool_call_id?: string }[]
    tools?: { function: { name: string } }[]
    response_format?: object
  }
}
interface Said {
  status?: number
  headers?: Record<string, string>
  body: unknown
}

const message = (content: string, more: object = {}) => ({
  choices: [{ message: { role: 'assistant', content, ...more }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1000, completion_tokens: 500 },
})
const call = (name: string, args: string) => ({ tool_calls: [{ id: 'c1', type: 'function', function: { name, arguments: args } }] })

async function modelServer(t: Test, answer: (asked: Asked, turn: number) => Said | undefined): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    asked.push({ headers: request.headers, body: JSON.parse(text) })
    t.equal(request.url, '/v1/chat/completions')
    const said = answer(asked[asked.length - 1], asked.length)
    if (said === undefined) return // never
    response.writeHead(said.status ?? 200, { 'content-type': 'application/json', ...said.headers }).end(JSON.stringify(said.body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}/v1/`, asked }
}

const add = defineTool({
  ref: 'tool://math/add',
  description: 'Adds',
  arguments: Type.Object({ a: Type.Integer(), b: Type.Integer() }, { additionalProperties: false }),
  mutates: false,
  call: async ({ a, b }) => a + b,
})

async function node(t: Test, url: string, more: { budgets?: object; timeout?: number } = {}) {
  const manifest: AgentManifest = {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name: 'sum', version: '1' },
    spec: {
      execution: { kind: 'tool-calling', max_turns: 3, instructions: 'Add.' },
      capabilities: { provides: ['sum.do'] },
      models: { privileged: { provider: 'local', model: 'm1' } },
      output: { schema: { type: 'object', required: ['sum'], properties: { sum: { type: 'integer' } } } },
      budgets: more.budgets ?? {},
    },
  }
  process.env.SVC_TEST_MODEL_KEY = 'k-123'
  const models = [{ name: 'local', base_url: url, key_env: 'SVC_TEST_MODEL_KEY', timeout_secs: more.timeout ?? 5, input_price: 2000, output_price: 10_000 }]
  return start(t, [], {
    agents: [defineAgent({ manifest, tools: [add] })],
    config: { agent_plane: { sweep_interval_secs: 0.1, allow_private_targets: true, models } },
  })
}

t.test('a model calls a tool, is told what it gave, and answers JSON; tokens and money are counted', async (t) => {
  const { url, asked } = await modelServer(t, (_, turn) => ({ body: turn === 1 ? message('', call('math__add', '{"a":1,"b":2}')) : message('{"sum":3}') }))
  const { run, node: booted } = await node(t, url)
  const answer = await run('sum.do', [1, 2])
  t.match(answer, { status: 'succeeded', output: { sum: 3 } })
  t.equal(asked.length, 2)
  t.match(asked[0], {
    headers: { authorization: 'Bearer k-123' },
    body: { model: 'm1', stream: false, messages: [{ role: 'system', content: 'Add.' }, { role: 'user' }], tools: [{ function: { name: 'math__add' } }] },
  })
  t.match(asked[0].body.response_format, { type: 'json_schema', json_schema: { schema: { required: ['sum'] } } })
  t.match(asked[1].body.messages.at(-1), { role: 'tool', tool_call_id: 'c1', content: '{"result":3}' })
  const records = await booted.storage.state('agent_plane').list<{ raw: string }>({ prefix: `record/${answer.run}/` })
  const spent = records.map(({ value }) => JSON.parse(value.raw)).flatMap(({ spend }) => spend ?? [])
  t.same(
    spent,
    [
      { tokens: 1500, minor_units: 7 },
      { tokens: 1500, minor_units: 7 },
    ],
    '1000 at 2000 and 500 at 10000 for a million',
  )
  t.notOk(
    records.some(({ value }) => value.raw.includes('k-123')),
    'the key is in no record',
  )
})

t.test('a server that is busy is asked again when it says; one that refuses is not', async (t) => {
  const busy = await modelServer(t, (_, turn) =>
    turn < 3 ? { status: 429, headers: { 'retry-after': '0' }, body: { error: { message: 'slow down' } } } : { body: message('{"sum":1}') },
  )
  t.match(await (await node(t, busy.url)).run('sum.do', null), { status: 'succeeded', output: { sum: 1 } })
  t.equal(busy.asked.length, 3)
  const shut = await modelServer(t, () => ({ status: 401, body: { error: { message: 'who are you' } } }))
  t.match(await (await node(t, shut.url)).run('sum.do', null), { status: 'failed', reason: 'the model server answered 401: who are you' })
  t.equal(shut.asked.length, 1)
  t.equal(retryAfter('2', 0), 2000)
  t.equal(retryAfter('Thu, 01 Jan 1970 00:00:03 GMT', 1000), 2000)
  t.equal(retryAfter('soon', 0), undefined)
})

t.test('an answer that is not as asked for is asked for again, and counts', async (t) => {
  const { url, asked } = await modelServer(t, (_, turn) => ({ body: message(turn === 1 ? 'three' : turn === 2 ? '{"sum":"3"}' : '{"sum":3}') }))
  t.match(await (await node(t, url)).run('sum.do', null), { status: 'succeeded', output: { sum: 3 } })
  t.equal(asked.length, 3)
  const wrong = await modelServer(t, () => ({ body: { choices: [] } }))
  t.match(await (await node(t, wrong.url)).run('sum.do', null), { status: 'failed', reason: /it has no message/ })
  const forever = await modelServer(t, () => ({ body: message('', call('math__add', '{"a":1,"b":2}')) }))
  t.match(await (await node(t, forever.url, { budgets: { max_minor_units: 10 } })).run('sum.do', null), { status: 'exhausted' })
  t.equal(forever.asked.length, 2, '7 and 7 are more than 10')
})

t.test('a server that does not answer is not waited for without end', async (t) => {
  const { url } = await modelServer(t, () => undefined)
  t.match(await (await node(t, url, { timeout: 0.1 })).run('sum.do', null), { status: /failed|quarantined/, reason: /no answer within 0.1 s|is not known/ })
})

t.test('nor is one whose answer never ends, and the reason says so', async (t) => {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(200)
    const drip = setInterval(() => response.write(' '), 10)
    response.on('close', () => clearInterval(drip))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}/v1`
  t.match(await (await node(t, url, { timeout: 0.1 })).run('sum.do', null), { reason: /no answer within 0.1 s/ })
})

t.test('an answer that does not say what it has cost counts as what was estimated', async (t) => {
  const { usage: _, ...silent } = message('', call('math__add', '{"a":1,"b":2}'))
  const answers = { 'no usage': silent, 'usage that is none': { ...silent, usage: { prompt_tokens: -1, completion_tokens: '9' } }, 'no JSON': 'cut' }
  for (const [name, body] of Object.entries(answers)) {
    const { url, asked } = await modelServer(t, () => ({ body }))
    t.match(await (await node(t, url, { budgets: { max_tokens: 1 } })).run('sum.do', null), { status: 'exhausted' }, name)
    t.equal(asked.length, 1, name)
  }
})

t.test('an answer of another form is one that cannot be used, whatever it is', async (t) => {
  const said = (more: object) => ({ choices: [{ message: { content: '', ...more } }] })
  const forms: [unknown, RegExp][] = [
    [null, /it has no message/],
    [[], /it has no message/],
    [{ choices: [null] }, /it has no message/],
    [{ choices: [{ message: null }] }, /it has no message/],
    [{ choices: [{ message: 'hello' }] }, /it has no message/],
    [said({ content: { sum: 3 } }), /its content is no text/],
    [said({ tool_calls: { 0: {} } }), /its calls of tools are no list/],
    [said({ tool_calls: [null] }), /a call of a tool has no name/],
    [said({ tool_calls: [{ function: { name: 5 } }] }), /a call of a tool has no name/],
    [said({ tool_calls: [{ function: { name: 'math__add', arguments: '{' } }] }), /the arguments of "math__add" are no JSON/],
  ]
  for (const [body, reason] of forms) {
    const { url } = await modelServer(t, () => ({ body }))
    t.match(await (await node(t, url)).run('sum.do', null), { status: 'failed', reason }, JSON.stringify(body))
  }
  const refusing = await modelServer(t, () => ({ status: 401, body: { error: { message: { code: 7 } } } }))
  t.match(await (await node(t, refusing.url)).run('sum.do', null), { status: 'failed', reason: /the model server answered 401: .*"code":7/ })
  t.equal(refusing.asked.length, 1)
})
