// The text of a stream, as a terminal shows it: carriage returns and backspaces move the cursor, and
// what follows overwrites what is there. JupyterLab does the same.

export class StreamText {
  /** What was appended since `take`; null if earlier text has changed. */
  private _added: string | null = '';
  /** The finished lines. */
  private _lines = '';
  private _line = '';
  /** In the last line. */
  private _cursor = 0;

  get text(): string {
    return this._lines + this._line;
  }

  get length(): number {
    return this._lines.length + this._line.length;
  }

  append(text: string): void {
    if (this._cursor === this._line.length && !/[\r\b]/.test(text)) {
      const end = text.lastIndexOf('\n') + 1;
      if (end > 0) {
        this._lines += this._line + text.slice(0, end);
        this._line = '';
      }
      this._line += text.slice(end);
      this._cursor = this._line.length;
      this._added = this._added === null ? null : this._added + text;
      return;
    }
    this._added = null;
    for (const [part] of text.matchAll(/[^\r\n\b]+|[\r\n\b]/g)) {
      if (part === '\n') {
        this._lines += `${this._line}\n`;
        this._line = '';
        this._cursor = 0;
      } else if (part === '\r') {
        this._cursor = 0;
      } else if (part === '\b') {
        this._cursor = Math.max(0, this._cursor - 1);
      } else {
        const end = this._cursor + part.length;
        this._line =
          this._line.slice(0, this._cursor) + part + this._line.slice(end);
        this._cursor = end;
      }
    }
  }

  /** What was appended since the last call; null: all of the text has to be shown again. */
  take(): string | null {
    const added = this._added;
    this._added = '';
    return added;
  }
}
