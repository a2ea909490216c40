/** An operations agent: takes the case of a full disk, has a person agree to a cleaning, and looks whether it has helped. */
import { defineAgent, httpTool, sqlTool, ToolRefused } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const ENOUGH_PERCENT = 80
const LOOKS = 120
const MINUTE = 60_000

const clean = httpTool({
  ref: 'tool://ops/clean',
  description: 'Deletes logs of a host that are older than so many days',
  arguments: Type.Object({ host: Type.String({ minLength: 1 }), older_than_days: Type.Integer({ minimum: 1 }) }, { additionalProperties: false }),
  mutates: true,
  requires_approval: true,
  method: 'POST',
  url: '$OUTSIDE_URL/cleanings',
  // Cleaning twice is not what was agreed to. When the answer of a call was lost, this is asked before anything else is done.
  probe: '$OUTSIDE_URL/cleanings/{idempotency_key}',
  body: Type.Object({ freed_bytes: Type.Integer() }),
})

export default defineAgent({
  manifest: {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name: 'janitor', version: '1' },
    spec: {
      capabilities: { provides: ['disk.attend'] },
      oversight: { roles: ['on-call'] },
      budgets: { max_effects: 500 },
    },
  },
  tools: [clean, sqlTool()],
  skills: (skill) => [
    skill({
      capability: 'disk.attend',
      summary: 'Makes room on the host of a signal',
      input: Type.Object({ tags: Type.Object({ host: Type.String() }), value: Type.Number() }),
      output: Type.Object({ host: Type.String(), outcome: Type.Enum(['cleaned', 'refused', 'left to another run']) }),
      // What is deleted stays deleted.
      compensation: 'pivot',
      async invoke(ctx, { tags: { host } }) {
        // Another signal of the same host joins the case while it is open.
        const { state, version } = await ctx.caseState()
        if (state !== null) return { host, outcome: 'left to another run' as const }
        await ctx.putCaseState(version, { attended_by: ctx.run })
        await ctx.deadline('room', { unit: 'minutes', n: 30 }, { warnBeforeMs: 10 * MINUTE })

        // What comes from outside is a parameter, and never a part of the text.
        const measured = async (count: number) => {
          const query = 'SELECT used FROM disk WHERE host = ? ORDER BY _time DESC LIMIT ?'
          return (await ctx.callTool('tool://svc/sql', { query, parameters: [host, count] })).rows.map(([used]) => Number(used))
        }
        const evidence = [`used lately, the newest first: ${(await measured(5)).map((used) => `${used} %`).join(', ')}`]
        await ctx.setCaseStatus('awaiting_human')
        try {
          await ctx.callTool('tool://ops/clean', { host, older_than_days: 7 }, { summary: `The disk of ${host} is full. Delete its logs?`, evidence })
        } catch (error) {
          if (!(error instanceof ToolRefused)) throw error
          await ctx.note(error.message)
          await ctx.cancelDeadline('room')
          await ctx.setCaseStatus('closed')
          return { host, outcome: 'refused' as const }
        }

        await ctx.setCaseStatus('awaiting_external')
        for (let look = 0; look < LOOKS; look++) {
          const [used] = await measured(1)
          if (used < ENOUGH_PERCENT) {
            await ctx.meetDeadline('room')
            await ctx.setCaseStatus('closed')
            return { host, outcome: 'cleaned' as const }
          }
          await ctx.sleep(look < 10 ? 1000 : MINUTE)
        }
        throw new Error(`${host} was cleaned, and there is no room yet`)
      },
    }),
  ],
})
