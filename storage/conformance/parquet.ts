/** Parquet files as DuckDB reads them. */

export interface ParquetFile {
  /** `name type`. */
  columns: string[]
  /** In the file's order, as text, so that no digits are lost; null = missing. */
  rows: (string | null)[][]
}

export async function readParquet(path: string): Promise<ParquetFile> {
  // An engine without exports needs no DuckDB.
  const { DuckDBInstance } = await import('@duckdb/node-api')
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const file = `'${path.replaceAll("'", "''")}'`
  const ask = async (query: string): Promise<unknown[][]> => (await connection.runAndReadAll(query)).getRows() as unknown[][]
  try {
    return {
      columns: (await ask(`SELECT column_name || ' ' || column_type FROM (DESCRIBE SELECT * FROM ${file})`)).map(([text]) => String(text)),
      rows: (await ask(`SELECT COLUMNS(*)::VARCHAR FROM ${file}`)) as (string | null)[][],
    }
  } finally {
    connection.disconnectSync()
    instance.closeSync()
  }
}
