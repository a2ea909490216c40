/** Trees of DuckDB's parser. */
import { DuckDBInstance } from '@duckdb/node-api'
import { literal } from '../ast.ts'

export interface ParserTrees {
  /** As JSON, without places in the text; `refused` where there is none. */
  treeOf(text: string): Promise<string>
  close(): void
}

export async function openParser(): Promise<ParserTrees> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  return {
    async treeOf(text) {
      const rows = await (await connection.run(`SELECT json_serialize_sql(${literal(text)})`)).getRows()
      const tree = JSON.parse(String(rows[0][0]))
      // What an error quotes of the text is the text's.
      if (tree.error === true) return 'refused'
      return JSON.stringify(tree, (key, value) => (key === 'query_location' ? undefined : value))
    },
    close() {
      connection.closeSync()
      instance.closeSync()
    },
  }
}
