/** Exit statuses of `svc plane`: one table for every verb. 6 is that of an export, and is tested with those. */
import { defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { startApi, tokenOf } from './testing.ts'

const RUN = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const nap = defineSkill({
  ...any,
  capability: 'nap',
  invoke: async (context) => {
    await context.sleep(1e9)
    return null
  },
})
const fail = defineSkill({ ...any, capability: 'fail', invoke: () => Promise.reject(new Error('it was to fail')) })
const echo = defineSkill({ ...any, capability: 'echo', invoke: async (_context, input) => input })

async function setup(t: Parameters<typeof startApi>[0]) {
  const api = await startApi(t, [nap, fail, echo])
  const plane = async (...argv: string[]) => {
    let [out, err] = ['', '']
    const io = { env: { SVC_TOKEN: tokenOf('ann') }, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli(['plane', ...argv, ...(argv.includes('--url') ? [] : ['--url', api.node.url])], io as never)
    return { code, out, err }
  }
  return { node: api.node, planeOf: api.plane, plane }
}

t.test('a run that ends well is 0, one that does not 1, and one that is suspended 3', async (t) => {
  const { node, plane } = await setup(t)
  // The routes that begin runs are those of administrators, who have no token of the operator API.
  const admin = async (...argv: string[]) => {
    let out = ''
    const code = await runCli(['plane', ...argv, '--url', node.url], { env: {}, out: (text: string) => void (out += text), err: () => {} } as never)
    return { code, run: out === '' ? '' : (JSON.parse(out) as { run: string }).run }
  }
  t.match(await admin('run', 'echo', '--input', '7'), { code: 0 })
  t.match(await admin('run', 'fail'), { code: 1 })
  const napping = await admin('run', 'nap')
  t.match(napping, { code: 3, run: /^run_/ })
  t.match(await admin('replay', napping.run), { code: 0 })
  t.match(await admin('replay', napping.run, '--resume'), { code: 3 })
  t.match(await plane('cancel', napping.run, '--reason', 'enough'), { code: 0 })
})

t.test('a verb that says why without saying so is used wrongly', async (t) => {
  const { plane } = await setup(t)
  const verbs = [
    ['cancel', RUN],
    ['quarantine', RUN, 'reopen'],
    ['quarantine', RUN, 'abandon'],
    ['hold', 'case_01ARZ3NDEKTSV4RRFFQ69G5FAV'],
    ['halt', 'tenant'],
    ['decide', 'ab'.repeat(32), '--approve'],
  ]
  for (const verb of verbs)
    for (const reason of [[], ['--reason', ' ']])
      t.match(await plane(...verb, ...reason), { code: 2, out: '', err: /without a reason: write --reason TEXT/ }, verb[0])
  t.match(await plane('cancel', RUN, '--reason', 'x'), { code: 1, err: /cannot find run/ }, 'with one the node is asked')
})

t.test('an answer that is not about all is 5, and one that cannot be had 4', async (t) => {
  const { plane, planeOf } = await setup(t)
  const partial = await plane('attention')
  t.match(partial, { code: 5, err: '' }, 'nothing here sends, so pushes are not looked at')
  const { needs_attention, not_checked } = JSON.parse(partial.out)
  t.equal(needs_attention, false)
  t.equal(not_checked.length, 1)
  const own = planeOf() as unknown as { attention: { view(): Promise<object> } }
  own.attention = { view: async () => ({ needs_attention: false, conditions: [], not_checked: [] }) }
  t.match(await plane('attention'), { code: 0 })
  const found = { condition: 'task.overdue', found: 1, at_least: false, subjects: ['x'], unlisted: 0, remedy: 'decide it' }
  own.attention = { view: async () => ({ needs_attention: true, conditions: [found], not_checked: ['the plane has no push registrations'] }) }
  t.match(await plane('attention'), { code: 1 }, 'what was found comes first')
  t.match(await plane('attention', '--url', 'http://127.0.0.1:1'), { code: 4, err: /cannot reach the node/ })
})
