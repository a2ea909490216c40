import { defineSkill, type Json, ownProse } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { startApi, tokenOf } from './testing.ts'

const ACTORS = {
  ann: { roles: ['admin', 'desk'] },
  bob: { roles: ['admin', 'desk'] },
  cat: { roles: ['admin'] },
  rita: { roles: ['reader'] },
}
const MASKED = 'Pay \u202egnp\u202c \u001b[2Jback'
const WRITTEN_OUT = 'Pay \\u{202E}gnp\\u{202C} \\u{1B}[2Jback'
const schema = { type: 'object', required: ['cents'], properties: { cents: { type: 'integer', minimum: 1 }, to: { type: 'string' } } }
const ask = defineSkill({
  capability: 'ask',
  summary: 'Of a test',
  input: Type.Any(),
  output: Type.Any(),
  invoke: async (context): Promise<Json> => ({
    ...(await context.task({ kind: 'refund', summary: ownProse(MASKED), proposed_action: { cents: 250, to: 'a\u200bb' }, candidate_roles: ['desk'], schema })),
  }),
})

t.test('tasks are listed, shown as they are rendered, taken and decided from the command line', async (t) => {
  const { node, run, agents } = await startApi(t, [ask], { actors: ACTORS })
  const svc = async (name: string, ...argv: string[]) => {
    let [out, err] = ['', '']
    const io = { env: { SVC_TOKEN: tokenOf(name) }, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli(['plane', ...argv, '--url', node.url], io as never)
    return { code, out, err }
  }
  const read = async (...argv: [string, ...string[]]) => {
    const { code, out, err } = await svc(...argv)
    t.match({ code, err }, { code: 0, err: '' })
    t.notMatch(out, /[\u202e\u202c\u200b]/)
    return JSON.parse(out)
  }
  const asking = await run('ask', null)
  const other = await run('ask', null)
  const list = await read('ann', 'tasks')
  t.match(list, { truncated: false, tasks: [{ kind: 'refund', state: 'open', summary: WRITTEN_OUT, escaped: true }, {}] })
  t.same(
    list.tasks.map((task: { run: string; digest?: string }) => [task.run, task.digest]).sort(),
    [asking, other].sort().map((id) => [id, undefined]),
    'for a digest the whole is shown',
  )
  t.same(await read('cat', 'tasks'), { tasks: [], truncated: false }, 'not for her roles')
  const id = (of: string): string => list.tasks.find((task: { run: string }) => task.run === of).id
  const [task, second] = [id(asking), id(other)]
  const whole = await read('rita', 'tasks', task)
  t.match(whole, { id: task, decidable_by_you: false, rendering: { summary: WRITTEN_OUT, proposed_action: { cents: 250, to: 'a\\u{200B}b' }, escaped: true } })
  t.notOk('justification' in whole)

  t.match(await svc('rita', 'tasks', task, '--claim'), { code: 4, err: /may not do "api:task.claim"/ })
  t.match(await read('ann', 'tasks', task, '--claim'), { state: 'claimed', assignee: 'ann' })
  t.match(await svc('bob', 'tasks', task, '--claim'), { code: 1, err: /it is claimed by "ann"/ })
  t.match(await svc('bob', 'tasks', task, '--release'), { code: 1 })
  t.same(await read('ann', 'tasks', task, '--release'), { released: true })
  await read('ann', 'tasks', task, '--claim')
  t.match(await svc('bob', 'tasks', task, '--takeover', 'cat'), { code: 1 })
  t.match(await read('bob', 'tasks', task, '--takeover', 'ann'), { assignee: 'bob' })
  for (const argv of [
    ['tasks', '--claim'],
    ['tasks', task, '--claim', '--release'],
    ['tasks', task, 'x'],
    ['decide'],
    ['decide', task, '--reason', 'x'],
    ['decide', task, '--approve', '--reject', '--reason', 'x'],
    ['decide', task, '--approve'],
    ['decide', task, '--approve', '--reason', 'x', '--amendment', '{'],
  ])
    t.match(await svc('bob', ...argv), { code: 2, out: '', err: /^svc: cannot / }, argv.join(' '))
  t.match(await svc('ann', 'tasks', 'x'), { code: 4, err: /"x" is not a task id/ })
  t.match(await svc('ann', 'tasks', '0'.repeat(64)), { code: 1, err: /there is none/ })

  const approve = ['decide', task, '--approve', '--reason', 'fine'] as const
  t.match(await svc('ann', ...approve), { code: 1, err: /it is claimed by "bob"/ })
  t.match(await svc('rita', ...approve), { code: 4, err: /may not do "api:task.decide"/ })
  t.match(await svc('bob', ...approve, '--digest', '0'.repeat(64)), { code: 1, err: /read it again/ })
  t.match(await svc('bob', ...approve, '--amendment', '{"cents":0}'), { code: 4, err: /cents/ })
  t.same(await read('bob', ...approve, '--digest', whole.digest, '--amendment', '{"cents":9}'), { decided_by: 'bob', approved: true })
  t.match(await svc('ann', ...approve), { code: 1, err: /it is completed/ })
  t.equal(await agents.settled(asking), 'succeeded')
  t.match(await agents.replay(asking), { output: { approved: true, decided_by: 'bob', reason: 'fine', amendment: { cents: 9 } } })
  t.same(await read('ann', 'decide', second, '--reject', '--reason', 'no'), { decided_by: 'ann', approved: false })
  t.equal(await agents.settled(other), 'succeeded')
  t.match((await agents.replay(other)).output, { approved: false, reason: 'no' })
})
