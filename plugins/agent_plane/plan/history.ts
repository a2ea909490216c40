/**
 * The plans of a run, as its journal has them. A step keeps its number for good, whatever plans come after the one that brought it: effect keys follow from it.
 * A node that has begun is the same in all of them, so that what was done is done again from the journal, and undone, as it was.
 */
import type { JournalRecord } from '../record/record.ts'
import { type FrozenNode, type FrozenPlan, isWhole } from './plan.ts'

export class PlanHistory {
  private readonly records: readonly JournalRecord[]
  private seen = 0
  private readonly numbers = new Map<string, number>()
  private readonly nodes: FrozenNode[] = []
  private last: FrozenPlan | undefined
  private whole = true

  /** @param records of a journal, which may grow. */
  constructor(records: readonly JournalRecord[]) {
    this.records = records
  }

  /** The one in force. */
  get current(): FrozenPlan {
    return this.read().last as FrozenPlan
  }

  /** Nodes of all, by number. */
  get all(): readonly FrozenNode[] {
    return this.read().nodes
  }

  /** Whether each says what its digest says, and follows from the one before. */
  get isWhole(): boolean {
    return this.read().whole
  }

  /** From 1. */
  numberOf(id: string): number {
    return this.read().numbers.get(id) ?? 0
  }

  nodeOf(number: number): FrozenNode | undefined {
    return this.read().nodes[number - 1]
  }

  private read(): this {
    for (; this.seen < this.records.length; this.seen++) {
      const record = this.records[this.seen]
      // The payload of an effect is read when it is asked for, which it seldom is.
      if (record.kind === 'PlanFrozen') this.take(record.payload.plan as FrozenPlan)
    }
    return this
  }

  private take(plan: FrozenPlan): void {
    this.whole &&= isWhole(plan) && plan.derived_from === this.last?.digest
    this.last = plan
    for (const node of plan.nodes) {
      const number = this.numbers.get(node.id) ?? this.nodes.length + 1
      this.numbers.set(node.id, number)
      this.nodes[number - 1] = node
    }
  }
}
