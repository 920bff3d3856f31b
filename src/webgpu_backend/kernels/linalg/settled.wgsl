// A sweep in which nothing moved was the last.
        if (t == 0u) {
            finished = u32(atomicExchange(&moved, 0u) == 0u);
        }
        if (workgroupUniformLoad(&finished) != 0u) {
            break;
        }
