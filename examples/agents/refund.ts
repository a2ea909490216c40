/** A saga: money goes back, the order is marked, the customer is told. When a later one of these fails, those before are undone, the newest first. */
import { defineAgent, httpTool } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const closed = { additionalProperties: false }
const transfer = Type.Object({ order: Type.String({ minLength: 1 }), cents: Type.Integer({ minimum: 1 }) }, closed)
const booked = Type.Object({ receipt: Type.String(), cents: Type.Integer() })

// The services know a repeated call by its key: one whose answer was lost is made again.
const service = { mutates: true, method: 'POST', idempotent: true } as const

const credit = httpTool({
  ...service,
  ref: 'tool://bank/credit',
  description: 'Pays money back to the customer of an order',
  arguments: transfer,
  requires_approval: true,
  url: '$OUTSIDE_URL/bank/credit',
  body: booked,
})
const debit = httpTool({
  ...service,
  ref: 'tool://bank/debit',
  description: 'Takes back what was paid back',
  arguments: transfer,
  url: '$OUTSIDE_URL/bank/debit',
  body: booked,
})
const mark = httpTool({
  ...service,
  ref: 'tool://shop/mark',
  description: 'Says in the shop how an order stands',
  arguments: Type.Object({ order: Type.String({ minLength: 1 }), status: Type.Enum(['paid', 'refunded']) }, closed),
  url: '$OUTSIDE_URL/shop/{order}',
})
const tell = httpTool({
  ...service,
  ref: 'tool://mail/send',
  description: 'Writes to a customer',
  arguments: Type.Object({ to: Type.String(), text: Type.String() }, closed),
  url: '$OUTSIDE_URL/mail',
})

export default defineAgent({
  manifest: {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name: 'refunder', version: '1' },
    spec: {
      capabilities: { provides: ['refund.pay'] },
      oversight: { roles: ['on-call'], within_secs: 86_400 },
      budgets: { max_effects: 50 },
    },
  },
  tools: [credit, debit, mark, tell],
  skills: (skill) => [
    skill({
      capability: 'refund.pay',
      summary: 'Pays an order back',
      input: Type.Object({ payload: Type.Object({ order: Type.String(), cents: Type.Integer(), mail: Type.String() }) }),
      output: booked,
      async invoke(ctx, { payload: { order, cents, mail } }) {
        const paid = await ctx.group(`refund of ${order}`, [`bank:${order}`, `shop:${order}`], async (group) => {
          const asked = { summary: `Pay ${cents} cents back for order ${order}?` }
          // Who approves may amend it: what was booked is what the bank says.
          const { body } = await ctx.callTool('tool://bank/credit', { order, cents }, asked)
          group.undo(() => ctx.callTool('tool://bank/debit', { order, cents: body.cents }))
          await ctx.callTool('tool://shop/mark', { order, status: 'refunded' })
          group.undo(() => ctx.callTool('tool://shop/mark', { order, status: 'paid' }))
          await ctx.callTool('tool://mail/send', { to: mail, text: `You get ${body.cents} cents back, receipt ${body.receipt}` })
          return body
        })
        await ctx.setCaseStatus('closed')
        return paid
      },
    }),
  ],
})
