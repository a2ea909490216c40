/** `svc plane replay` and `history`: of a run of a running node. */
import type { CommandCall } from 'svcdb'
import type { RecordView, ReplayReport } from 'svcdb/agents'
import { askAdmin } from './admin-client.ts'
import { askApi } from './api-client.ts'
import { said } from './case-verbs.ts'

const OK = 0
const NEGATIVE = 1
const SUSPENDED = 3

/** Runs the code of the node against the journal, without doing anything; or with --resume has the run go on. */
export async function replay(call: CommandCall, run: string): Promise<number> {
  const mode = call.flags.resume === undefined ? 'strict' : 'resume'
  const report = await askAdmin<ReplayReport>(call, `/${encodeURIComponent(run)}/replay`, { mode })
  call.out(`${JSON.stringify(report)}\n`)
  if (mode === 'strict') return report.divergences.length === 0 ? OK : NEGATIVE
  if (report.status === 'suspended') return SUSPENDED
  return report.status === 'succeeded' ? OK : NEGATIVE
}

interface Page {
  records: RecordView[]
  next_from: number | null
}

/** Over the operator API, page by page. */
export async function historyOfNode(call: CommandCall, run: string): Promise<number> {
  for (let from: number | null = 1; from !== null; ) {
    const answer: { status: number; body: Page & { error?: string } } = await askApi<Page>(call, `/runs/${encodeURIComponent(run)}/history?from=${from}`)
    if (answer.status >= 300) return said(call, answer)
    for (const record of answer.body.records) call.out(`${JSON.stringify(record)}\n`)
    from = answer.body.next_from
  }
  return OK
}
