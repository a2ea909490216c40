/** What has been asked of the database and how it was answered, since the last time that the whole was compared. */
import { after, type Change, doom, EMPTY, type Operation, type Outcome, type State, settled } from './model.ts'
import type { Scanned } from './scan.ts'

/** A read under way: it must see what was acknowledged when it began, and may see what was called before it ended. */
export interface Reading {
  base: State
  operations: Operation[]
  required: number
}

export class History {
  base: State = EMPTY
  private operations: Operation[] = []
  private next = 1
  private readonly readings = new Set<Reading>()

  begin(change: Change, cutoff: Operation['cutoff']): Operation {
    const operation: Operation = { number: this.next++, change, outcome: 'pending', durable: false, cutoff }
    this.operations.push(operation)
    for (const reading of this.readings) reading.operations.push(operation)
    return operation
  }

  /** @param durable an acknowledged one can no longer be lost. */
  end(operation: Operation, outcome: Outcome, durable: boolean): void {
    operation.outcome = outcome
    operation.durable = durable || operation.delivered === true
    this.add()
  }

  /** A reader of changes was given it: from now on it is there, whatever its caller is answered. */
  delivered(operation: Operation): void {
    operation.delivered = true
    operation.durable = true
    this.add()
  }

  private add(): void {
    // What is certain is added up.
    for (let first = this.operations[0]; first !== undefined && (first.outcome === 'refused' || first.durable); first = this.operations[0]) {
      if (first.outcome !== 'refused') this.base = after(this.base, first)
      this.operations.shift()
    }
  }

  get unsettled(): readonly Operation[] {
    return this.operations
  }

  read(): Reading {
    const operations = [...this.operations]
    const reading = { base: this.base, operations, required: operations.findLastIndex(({ outcome }) => outcome === 'acknowledged') + 1 }
    reading.required = operations.slice(0, reading.required).filter(({ outcome }) => outcome !== 'refused').length
    this.readings.add(reading)
    return reading
  }

  /** @returns what is wrong with what was read, if anything. */
  compare(reading: Reading, observed: readonly Scanned[], cutoff: Operation['cutoff']): string | undefined {
    this.readings.delete(reading)
    const found = settled(doom(reading.base, cutoff), reading.operations, reading.required, observed)
    return typeof found === 'string' ? found : undefined
  }

  /** The states that a copy made during the reading may hold parts of. */
  states(reading: Reading, cutoff: Operation['cutoff']): State[] {
    this.readings.delete(reading)
    const states: State[] = []
    let state = doom(reading.base, cutoff)
    for (const [i, operation] of reading.operations.filter(({ outcome }) => outcome !== 'refused').entries()) {
      if (i >= reading.required) states.push(state)
      state = after(state, operation)
    }
    return [...states, state]
  }

  giveUp(reading: Reading): void {
    this.readings.delete(reading)
  }

  /** The process has ended. @param powerCut what is not durable may be gone. */
  ended(powerCut: boolean, cutoff: Operation['cutoff']): void {
    this.readings.clear()
    this.base = doom(this.base, cutoff)
    const left: Operation[] = []
    for (const operation of this.operations) {
      if (operation.outcome === 'refused') continue
      if (operation.outcome === 'pending') operation.outcome = 'unknown'
      if (powerCut && !operation.durable) operation.outcome = 'unknown'
      limit(operation, cutoff)
      left.push(operation)
    }
    this.operations = left
  }

  /** Everything was read by a process that had just begun. @returns what is wrong. */
  settle(observed: readonly Scanned[], cutoff: Operation['cutoff']): string | undefined {
    // Its retention may take what came later than the base as well.
    for (const operation of this.operations) limit(operation, cutoff)
    const required = this.operations.findLastIndex(({ outcome }) => outcome === 'acknowledged') + 1
    const found = settled(doom(this.base, cutoff), this.operations, required, observed)
    if (typeof found === 'string') return found
    this.base = found.state
    this.operations = []
    return undefined
  }
}

/** Retention may also take what is before another cutoff. */
function limit(operation: Operation, cutoff: Operation['cutoff']): void {
  const own = operation.cutoff
  operation.cutoff = (measurement) => (own(measurement) > cutoff(measurement) ? own(measurement) : cutoff(measurement))
}

interface Transaction {
  puts: [key: string, value: number | undefined][]
  outcome: Outcome
}

/** The same for transactions of the state store. */
export class StateHistory {
  private base = new Map<string, number>()
  private transactions: Transaction[] = []

  begin(puts: Transaction['puts']): Transaction {
    const transaction: Transaction = { puts, outcome: 'pending' }
    this.transactions.push(transaction)
    return transaction
  }

  /** Values that each key may have in a copy that begins now. @returns what is to be asked when it has ended. */
  copying(): () => Map<string, Set<number | undefined>> {
    const required = this.transactions.findLastIndex(({ outcome }) => outcome === 'acknowledged') + 1
    const state = new Map<string, number | undefined>(this.base)
    const before = this.transactions.slice(0, required)
    const { length } = before
    return () => {
      for (const { puts, outcome } of before) if (outcome !== 'refused') for (const [key, value] of puts) state.set(key, value)
      const values = new Map([...state].map(([key, value]) => [key, new Set([value])]))
      for (const { puts } of this.transactions.slice(length))
        for (const [key, value] of puts) {
          const known = values.get(key) ?? new Set([undefined])
          values.set(key, known.add(value))
        }
      return values
    }
  }

  /** @returns what is wrong. */
  settle(found: readonly { key: string; value: number }[]): string | undefined {
    const left = this.transactions.filter(({ outcome }) => outcome !== 'refused')
    const required = left.findLastIndex(({ outcome }) => outcome === 'acknowledged') + 1
    const wanted = JSON.stringify(found.map(({ key, value }) => [key, value]))
    const state = new Map(this.base)
    for (let count = 0; count <= left.length; count++) {
      if (count > 0)
        for (const [key, value] of left[count - 1].puts) {
          if (value === undefined) state.delete(key)
          else state.set(key, value)
        }
      if (count < required || JSON.stringify([...state].sort(([a], [b]) => (a < b ? -1 : 1))) !== wanted) continue
      this.base = state
      this.transactions = []
      return undefined
    }
    return `the state store has ${wanted}, after ${required} to ${left.length} transactions on ${JSON.stringify([...this.base])}`
  }

  ended(): void {
    this.transactions = this.transactions.filter(({ outcome }) => outcome !== 'refused')
    for (const transaction of this.transactions) if (transaction.outcome === 'pending') transaction.outcome = 'unknown'
  }
}
