/** What a step asks of its plane beside effects outside: bytes that it keeps, and another plan; each in the transaction that journals it. */
import type { StateReader } from 'svcdb'
import type { BlobContext, BlobOptions, Json, Label, PlanNode, Topology } from 'svcdb/agents'
import { type SuccessorTools, successorOf } from '../plan/successor.ts'
import { canonical } from '../record/canonical.ts'
import { blobDigest, blobOf, DamagedBlob, keepBlob } from '../store/blobs.ts'
import { CaseStep, type CaseTools, permanently } from './case-context.ts'
import type { Phase } from './run-journal.ts'
import type { Stop } from './stop.ts'

export interface KeptTools extends CaseTools, SuccessorTools {
  state: StateReader
}

export abstract class KeptStep extends CaseStep implements BlobContext {
  protected abstract override readonly tools: KeptTools
  abstract readonly run: string
  abstract readonly label: Label
  protected abstract readonly phase: Phase

  /** The step has read something of this label. */
  protected abstract reads(label: Label): void
  /** Nothing else is told to the code of the step meanwhile. */
  protected abstract readUnrecorded<T>(act: () => Promise<T>): Promise<T>
  /** Does not resolve. */
  protected abstract stop(stop: Stop): Promise<never>

  async storeBlob(bytes: Uint8Array, { label = this.label }: BlobOptions = {}): Promise<string> {
    const kept = Uint8Array.from(bytes)
    const args = { sha256: blobDigest(kept), size: kept.length }
    const owner = this.caseId ?? this.run
    return (await this.stored({
      kind: 'svc.store_blob',
      args,
      metered: true,
      act: async (tx) => ({ output: await keepBlob(tx, owner, kept, label) }),
    })) as string
  }

  async replan(nodes: readonly (PlanNode | string)[], reason: string, topology?: Topology): Promise<number> {
    if (this.phase === 'compensating') throw permanently('cannot replan while the run is undone: it has nothing to go on to')
    const asked = { nodes: [...nodes], reason, ...(topology === undefined ? {} : { topology }) }
    const { journal } = this.tools
    const act = async () => {
      const plan = await successorOf(journal, asked, this.tools)
      return { output: plan.version, records: [{ kind: 'PlanFrozen', payload: { steps: plan.nodes.map(({ id }) => id), plan } }] }
    }
    return (await this.stored({ kind: 'svc.replan', args: JSON.parse(canonical(asked)) as Json, replans: true, act })) as number
  }

  readBlob(digest: string): Promise<Uint8Array> {
    return this.readUnrecorded(async () => {
      const found = await blobOf(this.tools.state, this.caseId ?? this.run, digest).catch((error: unknown) => {
        if (error instanceof DamagedBlob) throw error
        // The step would fail of it, whatever the journal says of that step.
        return this.stop({ kind: 'broken', error })
      })
      if (found === undefined)
        throw permanently(
          `cannot read blob ${JSON.stringify(digest.slice(0, 64))}: this ${this.caseId === undefined ? 'run' : 'case'} has kept none of that digest`,
        )
      this.reads(found.label)
      return found.bytes
    })
  }
}
