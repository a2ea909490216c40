/** What leaves a step: values into sinks, under a bound on what may go there, and bytes that are kept beside the journal. */
import { createHash } from 'node:crypto'
import { defineAgent, defineSkill, EffectError, type Json, type Label, OWN, type Sensitivity, type StepContext } from 'svcdb/agents'
import { AgentRunner, crashEverywhere } from 'svcdb/agents/testkit'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'

const skill = (capability: string, invoke: (ctx: StepContext, input: Record<string, Json>) => Promise<Json>) =>
  defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke: invoke as never })
const inside = { label: { provenance: [] as string[], trust: 'trusted', sensitivity: 'internal' } } satisfies { label: Label }

/** Sends its input to somebody who accepts what it says. */
function sending() {
  const sent: Json[] = []
  const send = skill('send', async (ctx, { read, ...rest }) => {
    if (read !== undefined) {
      const declares = { trust: 'trusted', sensitivity: read as Sensitivity } as const
      await ctx.effect({ kind: 'file.read', args: null, mutates: false, declares }, async () => 'what is in it')
    }
    const sink = { kind: 'mail.send', args: { text: 'hello' }, recovery: 'idempotent', accepts: 'internal', ...rest } as const
    return ctx.sink(sink as never, async () => {
      sent.push('hello')
      return 'sent'
    })
  })
  return { sent, send }
}

t.test('a value goes where it may, and the journal says with what label', async (t) => {
  const { sent, send } = sending()
  const runner = await AgentRunner.create({ skills: [send] })
  const { run, status, output } = await runner.run('send', {}, inside)
  t.same([status, output, sent], ['succeeded', 'sent', ['hello']])
  const started = (await runner.journal(run)).find(({ kind }) => kind === 'EffectStarted')
  t.match(started?.payload, { mutates: true, outbound_label: { trust: 'trusted', sensitivity: 'internal' }, outbound_bytes: 16 })
  t.same(await runner.replay(run), [])
})

t.test('what is too sensitive, or comes from outside, does not leave, and that is on record', async (t) => {
  const { sent, send } = sending()
  const runner = await AgentRunner.create({ skills: [send] })
  const secret = await runner.run('send', { read: 'secret' }, inside)
  t.match(secret, { status: 'failed', reason: /does not go out: the value is secret, and internal is the most that may go there/ })
  const outside = await runner.run('send', {})
  t.match(outside, { status: 'failed', reason: /comes from outside \(actor:tester\), which may not go there/ })
  for (const { run } of [secret, outside]) {
    const records = await runner.journal(run)
    t.match(
      records.find(({ kind }) => kind === 'PolicyDenied'),
      { payload: { action: 'data:release', resource: 'mail.send' } },
    )
    t.match(
      records.findLast(({ kind }) => kind === 'EffectFailed'),
      { payload: { disposition: 'did_not_happen', permanent: true } },
    )
    t.same(await runner.replay(run), [])
  }
  t.same(sent, [], 'nothing went')
  t.match(await runner.run('send', { acceptsUntrusted: true }), { status: 'succeeded' })
  t.match(await runner.run('send', { mutates: false }), { status: 'succeeded' }, 'what changes nothing takes what comes from outside')
  t.match(await runner.run('send', { label: OWN as never }), { status: 'succeeded' }, 'a value of the code itself')
  t.match(await runner.run('send', { accepts: 'everything' }, inside), { status: 'failed', reason: /no sensitivity; it is one of public/ })
})

t.test('refused sinks count as what was refused', async (t) => {
  const stubborn = skill('stubborn', async (ctx) => {
    for (let i = 0; i < 5; i++) await ctx.sink({ kind: 'mail.send', args: i, accepts: 'secret' }, async () => null).catch(() => {})
    return 'gave up'
  })
  const agent = defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'stubborn', version: '1' },
      spec: { capabilities: { provides: ['stubborn'] }, budgets: { max_denials: 2 } },
    },
    skills: () => [stubborn],
  })
  const runner = await AgentRunner.create({ agents: [agent] })
  t.match(await runner.run('stubborn', null), { status: 'exhausted' })
})

t.test('what a person has released goes out', async (t) => {
  const sent: Json[] = []
  const agent = defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'mailer', version: '1' },
      spec: { capabilities: { provides: ['mailer.do'] }, budgets: {} },
    },
    skills: (define) => [
      define({
        capability: 'mailer.do',
        summary: 'Of a test',
        input: Type.Any(),
        output: Type.Any(),
        async invoke(ctx, value) {
          const send = () => ctx.sink({ kind: 'mail.send', args: value, recovery: 'idempotent', accepts: 'public' }, async () => sent.push(value))
          const refused = await send().catch((error: Error) => error)
          if (!(refused instanceof EffectError)) return 'it went at once'
          await ctx.release(value, { summary: 'May this go out?' })
          return send()
        },
      }),
    ],
  })
  const runner = await AgentRunner.create({ agents: [agent] })
  const { run, status } = await runner.run('mailer.do', 'text')
  t.equal(status, 'suspended')
  t.match(await runner.decide(run, { approved: true, by: 'bob' }), { status: 'succeeded', output: 1 })
  t.same(sent, ['text'])
})

t.test('bytes are kept once, wherever the process dies, and read by whoever is in the case', async (t) => {
  const bytes = new TextEncoder().encode('a document '.repeat(40_000))
  const digest = createHash('sha256').update(bytes).digest('hex')
  const keep = skill('keep', async (ctx) => {
    const first = await ctx.storeBlob(bytes, { label: { provenance: ['file:scan'], trust: 'untrusted', sensitivity: 'confidential' } })
    return [first, await ctx.storeBlob(bytes, { label: OWN })]
  })
  const read = skill('read', async (ctx, { digest: wanted }) => {
    const found = await ctx.readBlob(wanted as string)
    return { length: found.length, same: Buffer.compare(found, bytes) === 0, ...ctx.label }
  })
  const options = () => ({ skills: [keep, read] })
  const matter = { case: { kind: 'claim', correlation: [{ namespace: 'claim', value: '7' }] }, ...inside }
  const other = { case: { kind: 'claim', correlation: [{ namespace: 'claim', value: '8' }] }, ...inside }
  const crashes = await crashEverywhere(options, async (runner) => {
    const { run, output } = await runner.run('keep', null, matter)
    t.same(output, [digest, digest])
    t.same(await runner.replay(run), [])
    t.match(await runner.run('read', { digest }, matter), {
      output: { length: bytes.length, same: true, sensitivity: 'confidential', trust: 'untrusted', provenance: ['file:scan'] },
    })
    t.match(await runner.run('read', { digest }, other), { status: 'failed', reason: /this case has kept none of that digest/ })
    t.match(await runner.run('read', { digest }, inside), { status: 'failed', reason: /this run has kept none/ })
  })
  t.ok(crashes > 20)
  const large = skill('large', (ctx) => ctx.storeBlob(new Uint8Array((4 << 20) + 1)))
  t.match(await (await AgentRunner.create({ skills: [large] })).run('large', null), { status: 'failed', reason: /4194304 is the limit/ })
})
