/** A file, or a part of it, that this reader does not understand: another encoding than DuckDB writes for our columns, or damaged bytes. Whoever asked reads it by DuckDB, which knows more and says what is wrong. */
export class PageFault extends Error {}
