import { defineConfig } from 'vite';

// File names without hashes: the binary holds exactly these three, and a rebuild changes no name.
export default defineConfig({
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/app[extname]',
      },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:7070', '/report': 'http://127.0.0.1:7070' } },
});
