/** Attention, halts and pushes from the command line. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { type ApiOptions, startApi, tokenOf } from './testing.ts'

const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const echo = defineSkill({ ...any, capability: 'echo', invoke: async (_context, input) => input })

async function startCli(t: Parameters<typeof startApi>[0], options: ApiOptions = {}) {
  const api = await startApi(t, [echo], options)
  const plane = async (name: string, ...argv: string[]) => {
    let [out, err] = ['', '']
    const io = { env: { SVC_TOKEN: tokenOf(name) }, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli(['plane', ...argv, '--url', api.node.url], io as never)
    return { code, err, body: out === '' ? undefined : JSON.parse(out) }
  }
  return { ...api, plane }
}

t.test('halts are placed, listed and lifted; that none stood is a negative answer', async (t) => {
  const { plane, agents } = await startCli(t)
  t.match(await plane('rita', 'halt'), { code: 0, body: { halts: [] } })
  t.match(await plane('rita', 'halt', 'tenant', '--reason', 'x'), { code: 4, err: /may not do "api:halt.place"/ })
  t.match(await plane('ann', 'halt', 'tenant'), { code: 2, err: /reason/ })
  t.match(await plane('ann', 'halt', 'all', '--reason', 'x'), { code: 4, err: /is not a halt scope/ })
  for (const bad of [['--lift'], ['--reason', 'x'], ['tenant', 'more']]) t.match(await plane('ann', 'halt', ...bad), { code: 2 }, bad.join(' '))
  t.match(await plane('ann', 'halt', 'tenant', '--reason', 'a flood'), { code: 0, body: { scope: 'tenant', halted: true, by: 'ann' } })
  t.match(await plane('rita', 'halt'), { code: 0, body: { halts: [{ scope: 'tenant', reason: 'a flood' }] } })
  await t.rejects(agents.run({ capability: 'echo', input: null, actor: 'test' }), { code: 'FORBIDDEN', message: /a flood/ })
  t.match(await plane('bob', 'halt', 'tenant', '--lift'), { code: 0, body: { was_standing: true, removed: true } })
  t.match(await plane('bob', 'halt', 'tenant', '--lift'), { code: 1, body: { was_standing: false } })
  t.match(await plane('rita', 'halt', '--lifted'), { code: 0, body: { lifted: [{ scope: 'tenant', by: 'bob', thrown_by: 'ann' }] } })
})

t.test('attention says what was found; what is parked is told again', async (t) => {
  let gone = true
  const server = createServer((request, response) => request.resume().on('end', () => response.writeHead(gone ? 410 : 204).end()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const webhooks = { signing_secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private_targets: true }
  const { plane, agents } = await startCli(t, { plugins: ['webhooks'], config: { webhooks } })
  t.match(await plane('rita', 'attention'), { code: 0, body: { needs_attention: false, not_checked: [] } })
  t.match(await plane('nobody', 'attention'), { code: 4, err: /may not do "api:attention"/ })
  const { run } = await agents.run({ capability: 'echo', input: null, actor: 'test', push: [{ id: 'one', url }] })
  let seen = await plane('rita', 'attention')
  for (const end = Date.now() + 60_000; seen.code === 0 && Date.now() < end; seen = await plane('rita', 'attention'))
    await new Promise((resolve) => setTimeout(resolve, 50))
  t.match(seen, { code: 1, body: { conditions: [{ condition: 'push.parked', subjects: [`${run}/one`] }] } })
  gone = false
  t.match(await plane('rita', 'rearm', run, 'one'), { code: 4, err: /may not do "api:push.rearm"/ })
  t.match(await plane('ann', 'rearm', run), { code: 2 })
  t.match(await plane('ann', 'rearm', 'x', 'one'), { code: 4, err: /not a run id/ })
  t.match(await plane('ann', 'rearm', run, 'two'), { code: 1, body: { rearmed: false } })
  t.match(await plane('ann', 'rearm', run, 'one'), { code: 0, body: { rearmed: true } })
  t.match(await plane('ann', 'rearm', run, 'one'), { code: 1, body: { rearmed: false } })
})

t.test('where nothing sends, attention is a part of the answer, and a registration cannot be rearmed', async (t) => {
  const { plane } = await startCli(t)
  t.match(await plane('rita', 'attention'), { code: 5, body: { needs_attention: false, not_checked: [/^push registrations/] } })
  t.match(await plane('ann', 'rearm', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'one'), { code: 4, err: /no push store/ })
})
