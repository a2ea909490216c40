/** The Flight SQL JDBC driver. */
import { cached, client, hasCompiler, lacking } from './program.ts'

const JAR = 'flight-sql-jdbc-driver.jar'
export const noJdbc: string | false =
  lacking('JDBC driver for Flight SQL', JAR) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')
/** Arguments of `java` before those of the program. */
export const JDBC = ['--add-opens=java.base/java.nio=ALL-UNNAMED', '-Duser.timezone=UTC', '-Xmx512m', '-cp', cached(JAR), client('FlightSqlJdbc.java')]
