// What is undone after each test: setup.ts does it, and files that have something to undo add it here.

export const cleanups: (() => void)[] = [];
