/** Bugs that the engine has had, put back one by one: each is a replacement of its source as it is now. */

export interface Mutant {
  name: string
  what: string
  /** Each text is in its file exactly once. */
  edits: { file: string; find: string; replace: string }[]
}

const WRITER = 'storage/embedded/catalog/writer.ts'
const WAL = 'storage/common/log/log.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'A',
    what: "another commit takes a memtable as stored whose flush's commit is under way or has failed: the log's floor is past its rows",
    edits: [
      { file: WRITER, find: '  private storedFloor = 0\n', replace: '  private storedFloor = 0\n  private leaving: Memtable | undefined\n' },
      {
        file: WRITER,
        find: 'await this.ahead.store()',
        replace: 'if (change.leaving !== undefined) this.leaving = change.leaving\n    await this.ahead.store()',
      },
      {
        file: WRITER,
        find: 'this.storedFloor = floor',
        replace: 'if (change.leaving !== undefined) this.leaving = undefined\n        this.storedFloor = floor',
      },
      { file: WRITER, find: 'this.counters(change.leaving)', replace: 'this.counters(this.leaving)' },
    ],
  },
  {
    name: 'B',
    what: 'a commit that fails loses in which log file measurements were dropped: the next one forgets their tables, whatever the log still has of them',
    edits: [
      {
        file: WRITER,
        find: '() => wal.settled(),\n    )',
        replace:
          '() => wal.settled(),\n    ).catch((error) => {\n      for (const table of schema.goneTables.keys()) schema.goneTables.set(table, 0)\n      throw error\n    })',
      },
    ],
  },
  {
    name: 'C',
    what: 'recovery does not make durable what it has read',
    edits: [
      { file: 'storage/embedded/wal/recovery.ts', find: 'for (const file of result.files) {', replace: 'for (const file of result.files.slice(0, 0)) {' },
    ],
  },
  {
    name: 'D',
    what: 'a commit stores fields of writes that the log has not taken, and their numbers are given again',
    edits: [
      {
        file: 'storage/embedded/catalog/change.ts',
        find: 'schema.any(id)?.def()',
        replace: '((one) => one && { ...one.def(), fields: [...one.list] })(schema.any(id))',
      },
      {
        file: 'storage/embedded/write/write-path.ts',
        find: 'this.inFlight.set(admitted, namespace)\n',
        replace:
          "this.inFlight.set(admitted, namespace)\n    for (const { measurement } of definitions?.fields ?? []) if (schema.any(measurement)?.durable) schemaPublisher.unstored.mark('measurement', measurement)\n",
      },
      // Replay repairs what earlier servers have left of this.
      {
        file: 'storage/embedded/catalog/schema.ts',
        find: 'for (const phantom of owner.list.filter(({ id, name }) => id === field.id || name === field.name)) removeField(owner, phantom)',
        replace: '',
      },
    ],
  },
  {
    name: 'E',
    what: 'a commit stores series of writes that the log has not taken',
    edits: [
      { file: 'storage/embedded/catalog/catalog.ts', find: 'symbols = index.symbols.published', replace: 'symbols = index.symbols.count' },
      { file: 'storage/embedded/catalog/catalog.ts', find: 'series = index.publishedCount', replace: 'series = index.count' },
    ],
  },
  {
    name: 'F',
    what: 'a frame says that bytes before it are durable which are only written',
    edits: [{ file: WAL, find: 'out.setU32(waiter.start + 8, this.durable)', replace: 'out.setU32(waiter.start + 8, this.written)' }],
  },
]
