/** DuckDB, which reads what statements mean: a node that nobody asks in SQL never loads it. */
import type { StorageContext } from 'svcdb'
import type { Binder } from '../../embedded/sql/bind.ts'

export class LateBinder {
  private readonly functions: NonNullable<StorageContext['sqlFunctions']>
  private opened: Promise<Binder> | undefined

  constructor(functions: StorageContext['sqlFunctions'] = []) {
    this.functions = functions
  }

  /** Tried again where it failed. */
  open(): Promise<Binder> {
    if (this.opened === undefined) {
      this.opened = import('../../embedded/sql/bind.ts').then(({ Binder }) => Binder.open(this.functions))
      this.opened.catch(() => (this.opened = undefined))
    }
    return this.opened
  }

  async close(): Promise<void> {
    await this.opened?.then(
      (binder) => binder.close(),
      () => {},
    )
  }
}
